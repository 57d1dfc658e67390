//! Every store that this workspace has, against every case, with a matrix of what ran.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use tenure::Store;
use tenure::clock::SystemClock;
use tenure::stores::memory::MemoryStore;
use tenure_testkit::conformance::{Case, Maker, Subject, cases};

/// What became of each case, by store and group.
type Results = Arc<Mutex<BTreeMap<(&'static str, &'static str), (usize, usize)>>>;

fn main() -> ExitCode {
    tenure_testkit::role::run_if_asked();
    let mut arguments = Arguments::from_args();
    // Most cases wait for a lease to end: they take time, but hardly a processor.
    arguments.test_threads = arguments.test_threads.or(Some(10));
    let results = Results::default();
    let makers: Vec<_> = makers().into_iter().map(Arc::new).collect();
    let mut trials = vec![Trial::test("meta::every_store_is_here", every_store_is_here)];
    for maker in &makers {
        for case in cases() {
            trials.push(trial(maker, case, &results));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let complete = print_matrix(&makers, &results);
    let chosen = arguments.filter.is_some() || !arguments.skip.is_empty() || arguments.list;
    if !chosen && !complete {
        println!("the matrix is not full: a pair of store and case did not run");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn makers() -> Vec<Maker> {
    let mut makers = embedded();
    #[cfg(feature = "servers")]
    makers.extend(
        tenure_testkit::servers::kinds().into_iter().map(tenure_testkit::servers::Kind::maker),
    );
    makers
}

fn embedded() -> Vec<Maker> {
    vec![
        Maker::new("memory", || {
            Box::pin(async {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
                let connect = move || {
                    let store = Arc::clone(&store);
                    Box::pin(async move { Ok(store) }) as _
                };
                Ok(Subject::new(connect, None, ()))
            })
        }),
        Maker::new("file", || {
            Box::pin(async {
                let folder = tempfile::tempdir()?;
                let url = format!("file:{}", folder.path().join("locks.db").display());
                let connect = {
                    let url = url.clone();
                    move || {
                        let url = url.clone();
                        Box::pin(async move {
                            Ok(tenure::stores::open(&url, Arc::new(SystemClock)).await?)
                        }) as _
                    }
                };
                Ok(Subject::new(connect, Some(url), folder))
            })
        }),
    ]
}

fn trial(maker: &Arc<Maker>, case: Case, results: &Results) -> Trial {
    let (maker, results) = (Arc::clone(maker), Arc::clone(results));
    Trial::test(format!("{}::{}", maker.name(), case.name()), move || {
        let outcome = case.run(&maker);
        let mut results = results.lock().unwrap();
        let (passed, ran) = results.entry((maker.name(), case.group())).or_default();
        *ran += 1;
        *passed += usize::from(outcome.is_ok());
        outcome.map_err(|error| Failed::from(format!("{error:?}")))
    })
}

fn every_store_is_here() -> Result<(), Failed> {
    let here: Vec<_> = makers().iter().map(Maker::name).collect();
    let is_here = |name: &str| here.iter().any(|maker| maker.split('/').next() == Some(name));
    match tenure::stores::KINDS.iter().find(|kind| !is_here(kind.name)) {
        Some(missing) => Err(format!("{}: can be opened, but is not tested", missing.name).into()),
        None => Ok(()),
    }
}

fn print_matrix(makers: &[Arc<Maker>], results: &Results) -> bool {
    let results = results.lock().unwrap();
    let mut groups: Vec<_> = cases().iter().map(Case::group).collect();
    groups.dedup();
    let mut complete = true;
    print!("\n{:12}", "passed/cases");
    for maker in makers {
        print!(" {:>10}", maker.name());
    }
    println!();
    for group in groups {
        let all = cases().iter().filter(|case| case.group() == group).count();
        print!("{group:12}");
        for maker in makers {
            let (passed, ran) = results.get(&(maker.name(), group)).copied().unwrap_or_default();
            complete &= ran == all;
            let shown = if ran == 0 { "not run".into() } else { format!("{passed}/{all}") };
            print!(" {shown:>10}");
        }
        println!();
    }
    println!();
    complete
}

//! On a terminal: a line that lives while it waits, and a command that has the terminal to itself.

use tokio::process::{Child, Command};

use crate::sandbox::{Ran, Sandbox, is_running, until};
use crate::terminal::Terminal;

/// A `tenure` with a terminal.
struct Session {
    terminal: Terminal,
    child: Child,
}

impl Session {
    fn start(sandbox: &Sandbox, words: &[&str]) -> Self {
        // A session of its own with this as its terminal, in which keys make signals.
        let start = ["setsid", "-c", env!("CARGO_BIN_EXE_tenure")];
        Self::with(sandbox.started(&[&start, words].concat()))
    }

    /// A shell that has jobs.
    fn start_shell(sandbox: &Sandbox, script: &str) -> Self {
        let script = script.replace("tenure", env!("CARGO_BIN_EXE_tenure"));
        Self::with(sandbox.started(&["setsid", "-c", "bash", "--norc", "-m", "-c", &script]))
    }

    fn with(mut command: Command) -> Self {
        let terminal = Terminal::new(0, 0);
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        let [stdin, stdout, stderr] = [(); 3].map(|()| terminal.stream());
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap();
        Self { terminal, child }
    }

    fn shown(&mut self) -> String {
        self.terminal.read().unwrap_or_default()
    }

    async fn shows(&mut self, part: &str) -> String {
        let what = format!("{part:?} on the terminal");
        until(&what, || Some(self.shown()).filter(|shown| shown.contains(part))).await
    }

    fn press(&mut self, key: &str) {
        self.terminal.write(key);
    }

    async fn ended(mut self) -> (Option<i32>, String) {
        let ran = Ran::of(self.child).await;
        (ran.code, self.terminal.read().unwrap_or_default())
    }
}

#[tokio::test]
async fn while_it_waits_a_line_lives_and_then_is_gone() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").holder("nightly import").acquire().await.unwrap();
    let mut terminal = Session::start(&sandbox, &["run", "k", "--", "echo", "granted"]);
    let said = terminal.shows("ttl left").await;
    assert!(said.contains("waiting for \"k\""), "{said:?}");
    assert!(said.contains("nightly import for "), "{said:?}");
    // It is drawn again, on the same line.
    until("second drawing", || (terminal.shown().matches("\r\u{1b}[K").count() > 1).then_some(()))
        .await;
    guard.release().await.unwrap();
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(0), "{text:?}");
    // What was drawn is erased before the command writes.
    let rest = text.rsplit("\r\u{1b}[K").next().unwrap();
    assert_eq!(rest, "granted\r\n", "{text:?}");
}

#[tokio::test]
async fn the_command_has_the_terminal() {
    let sandbox = Sandbox::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && read line && echo \"got $line\"";
    let mut terminal = Session::start(&sandbox, &["run", "k", "--", "sh", "-c", script]);
    terminal.press("hello\n");
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(0), "{text:?}");
    assert!(text.contains("got hello"), "{text:?}");
}

#[tokio::test]
async fn a_key_interrupts_the_command_once() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo INT >> got; exit 9' INT; echo $$ > pid; \
                  while :; do sleep 0.02; done";
    let mut terminal = Session::start(&sandbox, &["run", "k", "--", "sh", "-c", script]);
    sandbox.line("pid").await;
    terminal.press("\x03");
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(9), "{text:?}");
    assert_eq!(sandbox.line("got").await, "INT\n");
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_key_interrupts_the_wait() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let mut terminal = Session::start(&sandbox, &["run", "k", "--", "true"]);
    terminal.shows("ttl left").await;
    terminal.press("\x03");
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(130), "{text:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_lost_on_a_terminal_leaves_nobody_either() {
    let sandbox = Sandbox::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.02; done' & wait";
    let words = ["run", "k", "--ttl", "2s", "--", "sh", "-c", script];
    let terminal = Session::start(&sandbox, &words);
    let grandchild = sandbox.pid("pid").await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(76), "{text:?}");
    assert!(!is_running(grandchild));
}

/// As people do it: a key suspends the job of a shell, and the shell has it go on.
#[tokio::test]
async fn a_suspended_command_goes_on_while_the_lock_is_held() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; exit 7";
    let mut terminal = Session::start_shell(
        &sandbox,
        &format!("tenure run k --ttl 1h -- sh -c '{script}'; echo left $?; : > go; fg; exit $?"),
    );
    sandbox.line("pid").await;
    terminal.press("\x1a");
    let said = terminal.shows("left ").await;
    assert!(said.contains("left 148"), "{said:?}");
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(7), "{text:?}");
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

/// A program may ask for a password on the terminal, whatever its streams are.
#[tokio::test]
async fn a_command_can_ask_on_the_terminal_when_its_streams_are_none() {
    let sandbox = Sandbox::new();
    let script = "tenure run k -- sh -c 'echo $$ > pid; read line < /dev/tty; echo $line > got' \
                  < /dev/null > /dev/null 2>&1";
    let mut terminal = Session::start_shell(&sandbox, script);
    sandbox.line("pid").await;
    terminal.press("hello\n");
    assert_eq!(sandbox.line("got").await, "hello\n");
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(0), "{text:?}");
}

/// In the background no key sends it to the command: whoever did meant `tenure`.
#[tokio::test]
async fn a_job_in_the_background_is_interrupted_through_tenure() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo INT >> got; exit 9' INT; echo $$ > pid; while :; do sleep 0.02; done";
    let terminal = Session::start_shell(
        &sandbox,
        &format!(
            "tenure run k -- sh -c \"{}\" & while ! [ -s pid ]; do sleep 0.02; done; kill -INT $!; \
             wait $!",
            script.replace('$', "\\$")
        ),
    );
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(9), "{text:?}");
    assert_eq!(sandbox.line("got").await, "INT\n");
}

/// A person closes the window.
#[tokio::test]
async fn a_terminal_that_hangs_up_ends_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo HUP > got; exit 5' HUP; echo $$ > pid; while :; do sleep 0.02; done";
    let terminal = Session::start(&sandbox, &["run", "k", "--", "sh", "-c", script]);
    let command = sandbox.pid("pid").await;
    let Session { terminal, child } = terminal;
    drop(terminal);
    let ran = Ran::of(child).await;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(sandbox.line("got").await, "HUP\n");
    assert!(!is_running(command));
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

/// As people do it, and then forget about it.
#[tokio::test]
async fn a_command_that_is_suspended_beyond_its_lease_is_killed() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo late > late";
    let mut terminal = Session::start_shell(
        &sandbox,
        &format!(
            "tenure run k --ttl 5s -- sh -c '{script}'; echo left $?; \
             while ! [ -e go ]; do sleep 0.02; done; fg; exit $?"
        ),
    );
    let command = sandbox.pid("pid").await;
    terminal.press("\x1a");
    terminal.shows("left 148").await;
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(crate::sandbox::LIMIT).acquire().await.unwrap();
    assert!(!is_running(command));
    std::fs::write(sandbox.path("go"), "").unwrap();
    let (code, text) = terminal.ended().await;
    assert_eq!(code, Some(76), "{text:?}");
    assert!(text.contains("was lost") && !sandbox.path("late").exists(), "{text:?}");
    next.release().await.unwrap();
}

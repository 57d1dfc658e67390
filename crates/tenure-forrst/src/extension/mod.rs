//! The extensions of a request: which are asked for, and what they want.

pub(crate) mod atomic_lock;
pub(crate) mod cancellation;
pub(crate) mod deadline;
pub(crate) mod idempotency;
pub(crate) mod retry;
pub(crate) mod tracing;

use serde::Serialize;
use tenure_api::ForrstCode;

use crate::fault::Fault;
use crate::pointer::Pointer;
use crate::request::Asked;
use atomic_lock::LockOptions;
use cancellation::CancellationOptions;
use deadline::DeadlineOptions;
use idempotency::IdempotencyOptions;
use tracing::TracingOptions;

/// An extension that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AtomicLock,
    Cancellation,
    Deadline,
    Idempotency,
    Retry,
    Tracing,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::AtomicLock,
        Self::Cancellation,
        Self::Deadline,
        Self::Idempotency,
        Self::Retry,
        Self::Tracing,
    ];

    /// The URN of its specification, and the one that the rules for URNs ask for.
    pub(crate) const fn urns(self) -> [&'static str; 2] {
        match self {
            Self::AtomicLock => ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"],
            Self::Cancellation => {
                ["urn:forrst:ext:cancellation", "urn:cline:forrst:ext:cancellation"]
            }
            Self::Deadline => ["urn:forrst:ext:deadline", "urn:cline:forrst:ext:deadline"],
            Self::Idempotency => ["urn:forrst:ext:idempotency", "urn:cline:forrst:ext:idempotency"],
            Self::Retry => ["urn:forrst:ext:retry", "urn:cline:forrst:ext:retry"],
            Self::Tracing => ["urn:forrst:ext:tracing", "urn:cline:forrst:ext:tracing"],
        }
    }

    pub(crate) fn of(urn: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.urns().contains(&urn))
    }

    /// The names of its options.
    pub(crate) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::AtomicLock => &["key", "ttl", "scope", "block", "owner", "auto_release"],
            Self::Cancellation => &["token"],
            Self::Deadline => &["value", "unit", "timeout", "deadline"],
            Self::Idempotency => &["key", "ttl"],
            Self::Retry => &[],
            Self::Tracing => &["trace_id", "span_id"],
        }
    }

    /// Whether this option is an amount of time, with members of its own.
    pub(crate) fn is_amount(self, option: &str) -> bool {
        self.options().contains(&option) && matches!(option, "ttl" | "block" | "timeout")
    }

    /// Whether it means something to functions of the protocol itself.
    const fn is_for_system(self) -> bool {
        !matches!(self, Self::AtomicLock | Self::Idempotency)
    }
}

/// What to do with an extension that is not known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// Refuse the request: whoever asks for a lock under a name that is not known here must not be
    /// served without one.
    #[default]
    Refuse,
    /// Serve the request as if the extension had not been named.
    Ignore,
}

/// The extensions of one request, each under the URN that it was asked for with.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) lock: Option<Wish<LockOptions>>,
    pub(crate) cancellation: Option<Wish<CancellationOptions>>,
    pub(crate) deadline: Option<Wish<DeadlineOptions>>,
    pub(crate) idempotency: Option<Wish<IdempotencyOptions>>,
    pub(crate) retry: Option<Wish<()>>,
    pub(crate) tracing: Option<Wish<TracingOptions>>,
}

#[derive(Debug)]
pub(crate) struct Wish<T> {
    pub(crate) urn: String,
    pub(crate) options: T,
}

#[derive(Serialize)]
struct NotSupported<'a> {
    unsupported: Vec<&'a str>,
    supported: Vec<&'static str>,
}

#[derive(Serialize)]
struct NotApplicable<'a> {
    extension: &'a str,
    function: &'a str,
}

/// Which function the extensions are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) function: &'a str,
    pub(crate) is_system: bool,
    pub(crate) unknown: Unknown,
}

impl Wishes {
    /// Reads the extensions of a request.
    pub(crate) fn read(asked: &[Asked<'_>], setting: Setting<'_>) -> Result<Self, Fault> {
        let mut wishes = Self::default();
        let mut unsupported = Vec::new();
        for (number, Asked { urn, kind, options, .. }) in asked.iter().enumerate() {
            let Some(kind) = *kind else {
                unsupported.push((number, urn.as_str()));
                continue;
            };
            if setting.is_system && !kind.is_for_system() {
                let text = format!("Extension not applicable: {urn}");
                let details = NotApplicable { extension: urn, function: setting.function };
                let fault = Fault::new(ForrstCode::ExtensionNotApplicable, text);
                return Err(fault.at(Pointer::Extension(number)).with(details));
            }
            let at = Pointer::Options(number);
            let again = || {
                let text = format!("{urn} is asked for more than once");
                Fault::request(Pointer::Extension(number), text)
            };
            match kind {
                Kind::AtomicLock => {
                    let options = LockOptions::read(options, at)?;
                    wishes.lock = only(wishes.lock, urn, options).ok_or_else(again)?;
                }
                Kind::Cancellation => {
                    let options = CancellationOptions::read(options, at)?;
                    wishes.cancellation =
                        only(wishes.cancellation, urn, options).ok_or_else(again)?;
                }
                Kind::Deadline => {
                    let options = DeadlineOptions::read(options, at)?;
                    wishes.deadline = only(wishes.deadline, urn, options).ok_or_else(again)?;
                }
                Kind::Idempotency => {
                    let options = IdempotencyOptions::read(options, at)?;
                    wishes.idempotency =
                        only(wishes.idempotency, urn, options).ok_or_else(again)?;
                }
                Kind::Retry => wishes.retry = only(wishes.retry, urn, ()).ok_or_else(again)?,
                Kind::Tracing => {
                    let options = TracingOptions::read(options);
                    wishes.tracing = only(wishes.tracing, urn, options).ok_or_else(again)?;
                }
            }
        }
        if !unsupported.is_empty() && setting.unknown == Unknown::Refuse {
            return Err(not_supported(&unsupported));
        }
        Ok(wishes)
    }
}

/// A wish, if there was none of its kind before.
fn only<T>(before: Option<Wish<T>>, urn: &str, options: T) -> Option<Option<Wish<T>>> {
    match before {
        Some(_) => None,
        None => Some(Some(Wish { urn: urn.to_owned(), options })),
    }
}

/// Refuses a lock that is asked for under a name that is not quite its own: whoever serves the call
/// without knowing that name would serve it without a lock.
#[cfg(feature = "gateway")]
pub(crate) fn check_spelling(asked: &[Asked<'_>]) -> Result<(), Fault> {
    let resembles_lock = |urn: &str| {
        let letters = urn.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_ascii_lowercase().contains("atomiclock")
    };
    let unknown = asked.iter().enumerate().filter(|(_, asked)| asked.kind.is_none());
    let named = unknown.map(|(number, asked)| (number, asked.urn.as_str()));
    let misspelt: Vec<_> = named.filter(|(_, urn)| resembles_lock(urn)).collect();
    if misspelt.is_empty() { Ok(()) } else { Err(not_supported(&misspelt)) }
}

/// The error for these extensions, with their numbers. The first is pointed at.
fn not_supported(asked: &[(usize, &str)]) -> Fault {
    let unsupported: Vec<_> = asked.iter().map(|(_, urn)| *urn).collect();
    let text = format!("Extension not supported: {}", unsupported.join(", "));
    let supported = Kind::ALL.into_iter().flat_map(Kind::urns).collect();
    let fault = Fault::new(ForrstCode::ExtensionNotSupported, text)
        .with(NotSupported { unsupported, supported });
    match asked.first() {
        Some((number, _)) => fault.at(Pointer::Extension(*number)),
        None => fault,
    }
}

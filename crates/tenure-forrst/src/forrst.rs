//! A service of functions, put together.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use http::Extensions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};

use crate::call::Call;
use crate::desk::{LockDesk, OpenDesk};
use crate::engine::Engine;
use crate::extension::Unknown;
use crate::extension::cancellation::Cancellations;
use crate::extension::idempotency::Answers;
use crate::fault::Fault;
use crate::function::Function;
#[cfg(feature = "gateway")]
use crate::gateway::{Gateway, Upstream};
use crate::locked::Locking;
use crate::registry::Registry;
use crate::released::ReleasedLocks;
use crate::service::{ForrstService, Inner};
use crate::system;

/// What the keys of locks begin with, as the specification has it. The reference implementation
/// writes `forrst_lock:`, behind whatever its cache is configured to write.
pub const PREFIX: &str = "lock:";

/// Functions that can be called, each under a lock if its caller wants that.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use serde_json::{Value, json};
/// use tenure_forrst::{Call, Fault, Forrst};
///
/// let locks = tenure::Locks::open("memory:").await?;
/// let forrst = Forrst::new(locks)
///     .function("payments.charge", "1.0.0", async |call: Call, arguments: Value| {
///         let fence = call.fence().map(|fence| fence.get());
///         Ok::<_, Fault>(json!({"charged": arguments["amount"], "fence": fence}))
///     })
///     .service();
/// let app: axum::Router = axum::Router::new().route_service("/forrst", forrst);
/// # drop(app); Ok(()) }
/// ```
#[must_use = "it serves nothing before `service` is called"]
pub struct Forrst {
    registry: Registry,
    desk: Desk,
    clock: Arc<dyn Clock>,
    prefix: String,
    unknown: Unknown,
    about: system::About,
    node: Option<String>,
    #[cfg(feature = "gateway")]
    upstream: Option<Upstream>,
}

enum Desk {
    Open(OpenDesk),
    Own(Arc<dyn LockDesk>),
}

impl Forrst {
    /// Functions whose locks are these.
    ///
    /// Everyone who reaches the service may take locks and ask about them; no one may take a lock
    /// away by force before [`force_release_for`](Self::force_release_for) says who.
    pub fn new(locks: Locks) -> Self {
        Self::with(Desk::Open(OpenDesk::new(locks)))
    }

    /// Functions whose locks come from a desk with rights of its own.
    pub fn at(desk: Arc<dyn LockDesk>) -> Self {
        Self::with(Desk::Own(desk))
    }

    fn with(desk: Desk) -> Self {
        Self {
            registry: Registry::default(),
            desk,
            clock: Arc::new(SystemClock),
            prefix: PREFIX.to_owned(),
            unknown: Unknown::default(),
            about: system::About {
                service: "tenure".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                request_bytes_max: 1024 * 1024,
                response_bytes_max: 10 * 1024 * 1024,
            },
            node: None,
            #[cfg(feature = "gateway")]
            upstream: None,
        }
    }

    /// A function of this name and version: see [`Function::new`].
    ///
    /// # Panics
    /// When `version` is no semantic version: it is part of the program.
    pub fn function<A, T, F, W>(self, name: &str, version: &str, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Call, A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.register(Function::new(name, version, function))
    }

    /// A function with all that is told about it.
    pub fn register(mut self, function: Function) -> Self {
        self.registry.add(function);
        self
    }

    /// What the keys of locks begin with: [`PREFIX`], unless a store is shared with another
    /// implementation that writes something else.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// What to do with extensions that are not known here.
    pub fn unknown_extensions(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    /// Who may take a lock away by force, by what the application has put beside a request. Not for
    /// a desk of the application's own, which decides by itself.
    pub fn force_release_for(
        mut self,
        may: impl Fn(&Extensions) -> bool + Send + Sync + 'static,
    ) -> Self {
        if let Desk::Open(desk) = &mut self.desk {
            desk.may_force = Arc::new(may);
        }
        self
    }

    /// Who is told the owner of a lock by `status`: everyone, as the specification has it, unless
    /// this says who. The owner itself always is. Whoever is told an owner can release its lock, so
    /// a service whose callers do not trust each other sets this.
    pub fn owners_shown_to(
        mut self,
        may: impl Fn(&Extensions) -> bool + Send + Sync + 'static,
    ) -> Self {
        if let Desk::Open(desk) = &mut self.desk {
            desk.sees_owners = Arc::new(may);
        }
        self
    }

    /// Who calls, by what the application has put beside a request: answers that are kept and
    /// calls that can be cancelled are those of one caller. If not set, all callers are one. Not
    /// for a desk of the application's own, which knows by itself.
    pub fn callers_named(
        mut self,
        name: impl Fn(&Extensions) -> String + Send + Sync + 'static,
    ) -> Self {
        if let Desk::Open(desk) = &mut self.desk {
            desk.naming = Arc::new(name);
        }
        self
    }

    /// The name and version of the service, for those who ask what it is.
    pub fn named(mut self, service: &str, version: &str) -> Self {
        service.clone_into(&mut self.about.service);
        version.clone_into(&mut self.about.version);
        self
    }

    /// Which of several servers this is, told in `meta.node`.
    pub fn node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// How many bytes a request and a response may have: 1 MiB and 10 MiB if not set.
    pub fn limits(mut self, request_bytes: usize, response_bytes: usize) -> Self {
        self.about.request_bytes_max = request_bytes;
        self.about.response_bytes_max = response_bytes;
        self
    }

    /// The clock to measure deadlines with.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Hands every function that is not here on to another server.
    ///
    /// # Errors
    /// When the client for it cannot be made.
    #[cfg(feature = "gateway")]
    pub fn upstream(mut self, gateway: Gateway) -> Result<Self, crate::GatewayError> {
        self.upstream = Some(Upstream::new(gateway)?);
        Ok(self)
    }

    /// The service, to be mounted.
    #[must_use]
    pub fn service(self) -> ForrstService {
        let Self { mut registry, desk, clock, prefix, unknown, about, node, .. } = self;
        let desk = match desk {
            Desk::Open(desk) => Arc::new(desk),
            Desk::Own(desk) => desk,
        };
        let cancellations = Arc::new(Cancellations::new(Arc::clone(&clock)));
        let released = Arc::new(ReleasedLocks::new(Arc::clone(&clock)));
        let locking = Locking { desk, clock: Arc::clone(&clock), prefix, released };
        let functions = [
            system::release(&locking),
            system::force_release(&locking),
            system::status(&locking),
            system::cancel(&locking.desk, &cancellations),
        ];
        let diagnostics = [system::ping(&clock), system::health(&locking.desk, &clock)];
        for function in functions.into_iter().chain(diagnostics.into_iter().flatten()) {
            registry.add(function);
        }
        #[cfg(feature = "gateway")]
        let is_gateway = self.upstream.is_some();
        #[cfg(not(feature = "gateway"))]
        let is_gateway = false;
        // What can be called behind a gateway is for the server there to tell.
        if !is_gateway {
            let before = Arc::new(registry.clone());
            let discovery =
                [system::capabilities(&about, &before), system::describe(&about, &before)];
            discovery.into_iter().flatten().for_each(|function| registry.add(function));
        }
        let (request_bytes_max, response_bytes_max) =
            (about.request_bytes_max, about.response_bytes_max);
        let engine = Engine {
            registry,
            locking,
            answers: Arc::new(Answers::new(Arc::clone(&clock))),
            clock,
            unknown,
            cancellations,
            #[cfg(feature = "gateway")]
            upstream: self.upstream,
        };
        ForrstService::new(Inner { engine, request_bytes_max, response_bytes_max, node })
    }
}

impl fmt::Debug for Forrst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forrst").field("registry", &self.registry).finish_non_exhaustive()
    }
}

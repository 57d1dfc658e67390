//! What a function knows of the call that it serves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semver::Version;
use serde_json::{Map, Value};
use tenure::clock::{Clock, Moment};
use tenure::{Fence, GuardView};

/// One call, as its function sees it. Cheap to clone.
#[derive(Clone)]
pub struct Call(Arc<About>);

pub(crate) struct About {
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) version: Version,
    pub(crate) context: Map<String, Value>,
    pub(crate) headers: http::HeaderMap,
    pub(crate) caller: Arc<http::Extensions>,
    pub(crate) lock: Option<GuardView>,
    pub(crate) deadline: Option<Moment>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Call {
    pub(crate) fn new(about: About) -> Self {
        Self(Arc::new(about))
    }

    /// The id of the request.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The function that was called.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.0.function
    }

    /// The version that was chosen.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.0.version
    }

    /// `context` of the request, as it came.
    #[must_use]
    pub fn context(&self) -> &Map<String, Value> {
        &self.0.context
    }

    /// The headers of the request.
    #[must_use]
    pub fn headers(&self) -> &http::HeaderMap {
        &self.0.headers
    }

    /// What the application around has put beside the request, like who calls.
    #[must_use]
    pub fn caller(&self) -> &http::Extensions {
        &self.0.caller
    }

    /// The lock that the call runs under, if it asked for one. When it is lost, the function is
    /// stopped; what it has started elsewhere can ask here.
    #[must_use]
    pub fn lock(&self) -> Option<&GuardView> {
        self.0.lock.as_ref()
    }

    /// The fence of that lock: pass it on with every write.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.0.lock.as_ref().map(GuardView::fence)
    }

    /// How long the call may still take, if it has a deadline. Then the function is stopped.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.since(self.0.clock.now()))
    }
}

impl fmt::Debug for Call {
    /// Without the headers and the context: whoever calls proves itself there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let About { id, function, version, .. } = &*self.0;
        let mut call = f.debug_struct("Call");
        call.field("id", id).field("function", function).field("version", version);
        call.field("fence", &self.fence()).finish_non_exhaustive()
    }
}

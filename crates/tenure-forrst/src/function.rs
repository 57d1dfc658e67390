//! Functions that can be called, and what is told about them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::call::Call;
use crate::fault::Fault;
use crate::pointer::{Pointer, escaped};
use crate::response::{Json, json};

/// The work of one call.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Json, Fault>> + Send>>;

/// A call whose arguments are good: it only has to be begun.
pub(crate) type Prepared = Box<dyn FnOnce(Call) -> Work + Send>;

type Prepare = dyn Fn(Map<String, Value>) -> Result<Prepared, Fault> + Send + Sync;

/// A function, with all that is told about it.
#[derive(Clone)]
pub struct Function {
    about: Arc<Descriptor>,
    prepare: Arc<Prepare>,
    is_system: bool,
}

/// What is told about a function.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Descriptor {
    pub(crate) name: String,
    pub(crate) version: Version,
    stability: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    summary: String,
    arguments: Vec<Argument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    errors: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Argument {
    name: String,
    schema: Value,
    required: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: String,
}

impl Function {
    /// A function of this name and version. Its arguments are read into `A` before anything else
    /// happens: a call with wrong ones takes no lock.
    ///
    /// # Panics
    /// When `version` is no semantic version: it is part of the program.
    #[allow(clippy::expect_used, reason = "a version is written by whoever writes the function")]
    pub fn new<A, T, F, W>(name: &str, version: &str, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Call, A) -> W + Send + Sync + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let version = Version::parse(version).expect("a semantic version, like 1.0.0");
        let function = Arc::new(function);
        let prepare = move |arguments| {
            let arguments = read::<A>(arguments)?;
            let function = Arc::clone(&function);
            Ok(Box::new(move |call| -> Work {
                Box::pin(async move { written(&function(call, arguments).await?) })
            }) as Prepared)
        };
        Self::prepared_by(name, version, prepare)
    }

    pub(crate) fn prepared_by(
        name: &str,
        version: Version,
        prepare: impl Fn(Map<String, Value>) -> Result<Prepared, Fault> + Send + Sync + 'static,
    ) -> Self {
        let stability = if version.pre.is_empty() { "stable" } else { "beta" };
        let about = Descriptor {
            name: name.to_owned(),
            version,
            stability,
            summary: String::new(),
            arguments: Vec::new(),
            result: None,
            errors: Vec::new(),
        };
        Self { about: Arc::new(about), prepare: Arc::new(prepare), is_system: false }
    }

    /// What it does, in a sentence.
    #[must_use]
    pub fn summary(mut self, text: &str) -> Self {
        text.clone_into(&mut self.about_mut().summary);
        self
    }

    /// An argument, with its JSON schema.
    #[must_use]
    pub fn argument(mut self, name: &str, schema: Value, required: bool, text: &str) -> Self {
        let (name, description) = (name.to_owned(), text.to_owned());
        self.about_mut().arguments.push(Argument { name, schema, required, description });
        self
    }

    /// The JSON schema of what it gives.
    #[must_use]
    pub fn result(mut self, schema: Value) -> Self {
        self.about_mut().result = Some(schema);
        self
    }

    /// A code that it may fail with.
    #[must_use]
    pub fn error(mut self, code: &str) -> Self {
        self.about_mut().errors.push(code.to_owned());
        self
    }

    /// A function of the protocol itself: locks and idempotency are not for it.
    pub(crate) fn system(mut self) -> Self {
        self.is_system = true;
        self
    }

    pub(crate) fn is_system(&self) -> bool {
        self.is_system
    }

    pub(crate) fn about(&self) -> &Descriptor {
        &self.about
    }

    pub(crate) fn prepare(&self, arguments: Map<String, Value>) -> Result<Prepared, Fault> {
        (self.prepare)(arguments)
    }

    fn about_mut(&mut self) -> &mut Descriptor {
        Arc::make_mut(&mut self.about)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.about).finish()
    }
}

/// Reads the arguments, or points at the one that is wrong. Values are not repeated: one of them
/// may be a secret.
fn read<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, Fault> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let mut pointer = Pointer::Arguments.to_string();
        for segment in error.path() {
            use serde_path_to_error::Segment::{Enum, Map, Seq, Unknown};
            let name = match segment {
                Seq { index } => index.to_string(),
                Map { key } | Enum { variant: key } => escaped(key).into_owned(),
                Unknown => break,
            };
            pointer = format!("{pointer}/{name}");
        }
        let text = error.inner().to_string();
        match missing(&text) {
            Some(name) => Fault::argument(
                format!("{pointer}/{}", escaped(name)),
                format!("{name} is required"),
            ),
            None => Fault::argument(pointer, without_values(&text)),
        }
    })
}

/// The name of a member that serde did not find.
fn missing(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.strip_suffix('`')
}

/// What serde says without what it saw: "invalid type: string …, expected u64".
fn without_values(text: &str) -> String {
    match text.rsplit_once("expected ") {
        Some((_, expected)) if repeats_a_value(text) => {
            format!("expected {expected}")
        }
        _ => text.to_owned(),
    }
}

fn repeats_a_value(text: &str) -> bool {
    text.starts_with("invalid") || text.starts_with("unknown variant")
}

fn written(result: &impl Serialize) -> Result<Json, Fault> {
    json(result).map_err(|error| {
        tracing::error!(%error, "what the function gave cannot be written as JSON");
        Fault::internal()
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Charge {
        user: String,
        lines: Vec<Line>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Line {
        amount: u32,
    }

    fn refused(arguments: Value) -> (String, String) {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let fault = read::<Charge>(arguments).unwrap_err();
        assert_eq!(fault.code(), "INVALID_ARGUMENTS");
        let pointer = serde_json::to_value(&fault).unwrap()["source"]["pointer"].to_string();
        (pointer.trim_matches('"').to_owned(), fault.message().to_owned())
    }

    #[test]
    fn a_wrong_argument_is_pointed_at_and_not_repeated() {
        let (pointer, text) = refused(json!({"user": "u", "lines": [{"amount": "s3cret"}]}));
        assert_eq!(pointer, "/call/arguments/lines/0/amount");
        assert_eq!(text, "expected u32");
    }

    #[test]
    fn a_missing_argument_is_pointed_at_where_it_should_stand() {
        let (pointer, text) = refused(json!({"lines": []}));
        assert_eq!(pointer, "/call/arguments/user");
        assert_eq!(text, "user is required");
        let (pointer, text) = refused(json!({"user": "u", "lines": [{"amount": 1}, {}]}));
        assert_eq!(pointer, "/call/arguments/lines/1/amount");
        assert_eq!(text, "amount is required");
    }
}

//! `capabilities` and `describe`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{CAPABILITIES, DESCRIBE, VERSION};
use crate::call::Call;
use crate::extension::Kind;
use crate::fault::Fault;
use crate::function::Function;
use crate::protocol;
use crate::registry::Registry;

/// What is told about the service.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) service: String,
    pub(crate) version: String,
    pub(crate) request_bytes_max: usize,
    pub(crate) response_bytes_max: usize,
}

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct DescribeArguments {
    function: Option<String>,
    version: Option<semver::Version>,
}

/// Both spellings of what the documents of the protocol spell differently.
pub(crate) fn capabilities(about: &About, registry: &Registry) -> [Function; 2] {
    let versions = [protocol::VERSION];
    let mut names: Vec<_> = registry.functions().map(|f| f.about().name.clone()).collect();
    names.dedup();
    let extensions: Vec<_> = Kind::ALL
        .into_iter()
        .flat_map(Kind::urns)
        .map(|urn| json!({"urn": urn, "version": VERSION}))
        .collect();
    let About { service, request_bytes_max, response_bytes_max, .. } = about;
    let told = Arc::new(json!({
        "service": service,
        "protocol_versions": versions,
        "protocolVersions": versions,
        "functions": names,
        "extensions": extensions,
        "limits": {
            "max_request_bytes": request_bytes_max,
            "max_response_bytes": response_bytes_max,
            "maxRequestSize": request_bytes_max,
        },
    }));
    CAPABILITIES.map(|name| {
        let told = Arc::clone(&told);
        Function::new(name, VERSION, move |_: Call, _: Nothing| {
            let told = Arc::clone(&told);
            async move { Ok::<_, Fault>(told.as_ref().clone()) }
        })
        .summary("Tells what the server can do")
        .system()
    })
}

pub(crate) fn describe(about: &About, registry: &Arc<Registry>) -> [Function; 2] {
    DESCRIBE.map(|name| {
        let (about, registry) = (about.clone(), Arc::clone(registry));
        Function::new(name, VERSION, move |_: Call, asked: DescribeArguments| {
            let told = described(&about, &registry, &asked);
            async move { told }
        })
        .summary("Describes the functions")
        .argument("function", json!({"type": "string"}), false, "only this one")
        .argument("version", json!({"type": "string"}), false, "in this version")
        .system()
    })
}

fn described(
    about: &About,
    registry: &Registry,
    asked: &DescribeArguments,
) -> Result<Value, Fault> {
    if let Some(name) = &asked.function {
        let function = registry
            .find(name, asked.version.as_ref())
            .map_err(|fault| fault.at("/call/arguments/function"))?;
        return Ok(json!(function.about()));
    }
    let functions: Vec<_> = registry.functions().map(Function::about).collect();
    let About { service, version, .. } = about;
    Ok(json!({
        "forrst": protocol::VERSION,
        "discovery": "0.1",
        "info": {"title": service, "version": version},
        "functions": functions,
    }))
}

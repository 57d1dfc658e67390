//! The functions by name and version.

use std::collections::BTreeMap;

use semver::Version;
use serde::Serialize;
use tenure_api::ForrstCode;

use crate::fault::Fault;
use crate::function::Function;

/// All that can be called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry(BTreeMap<String, BTreeMap<Version, Function>>);

#[derive(Serialize)]
struct NoSuchVersion<'a> {
    function: &'a str,
    requested_version: Option<String>,
    available_versions: Vec<String>,
}

impl Registry {
    pub(crate) fn add(&mut self, function: Function) {
        let versions = self.0.entry(function.about().name.clone()).or_default();
        versions.insert(function.about().version.clone(), function);
    }

    #[cfg(feature = "gateway")]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The function of that name and version; without a version the highest stable one.
    pub(crate) fn find(&self, name: &str, version: Option<&Version>) -> Result<&Function, Fault> {
        let Some(versions) = self.0.get(name) else {
            let text = format!("Function not found: {name}");
            return Err(Fault::new(ForrstCode::FunctionNotFound, text).at("/call/function"));
        };
        let found = match version {
            Some(version) => versions.get(version),
            None => versions.iter().rev().find(|(v, _)| v.pre.is_empty()).map(|(_, f)| f),
        };
        found.ok_or_else(|| {
            let requested_version = version.map(ToString::to_string);
            let text = match &requested_version {
                Some(version) => format!("Version {version} not found for function {name}"),
                None => format!("No stable version found for function {name}"),
            };
            let available_versions = versions.keys().map(ToString::to_string).collect();
            let details = NoSuchVersion { function: name, requested_version, available_versions };
            Fault::new(ForrstCode::VersionNotFound, text).at("/call/version").with(details)
        })
    }

    /// Every function in every version.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.0.values().flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::call::Call;

    fn registry(versions: &[&str]) -> Registry {
        let mut registry = Registry::default();
        for version in versions {
            let function = async |_: Call, _: Value| Ok::<_, Fault>(());
            registry.add(Function::new("orders.create", version, function));
        }
        registry
    }

    fn chosen(registry: &Registry, version: Option<&str>) -> Result<String, Value> {
        let version = version.map(|version| Version::parse(version).unwrap());
        match registry.find("orders.create", version.as_ref()) {
            Ok(function) => Ok(function.about().version.to_string()),
            Err(fault) => Err(serde_json::to_value(&fault).unwrap()),
        }
    }

    #[test]
    fn the_highest_stable_version_is_meant_where_none_is_named() {
        let registry = registry(&["1.2.0", "1.10.0", "2.0.0-beta.1"]);
        assert_eq!(chosen(&registry, None), Ok("1.10.0".into()));
        assert_eq!(chosen(&registry, Some("2.0.0-beta.1")), Ok("2.0.0-beta.1".into()));
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let fault = chosen(&registry(&["1.0.0", "1.1.0"]), Some("5.0.0")).unwrap_err();
        assert_eq!(fault["message"], "Version 5.0.0 not found for function orders.create");
        assert_eq!(
            fault["details"],
            json!({
                "function": "orders.create",
                "requested_version": "5.0.0",
                "available_versions": ["1.0.0", "1.1.0"],
            })
        );
        assert!(chosen(&registry(&["1.0.0-rc.1"]), None).is_err());
        let fault = registry(&[]).find("orders.create", None).unwrap_err();
        assert_eq!(fault.message(), "Function not found: orders.create");
    }
}

//! Stores from Dapr's components: YAML files with `kind: Component` and `type: lock.redis`.
//!
//! | metadata | becomes |
//! |---|---|
//! | `redisHost` | the host; several with commas between, if they are Sentinels |
//! | `redisUsername`, `redisPassword`, `redisDB` | user, password and database |
//! | `enableTLS` | TLS. The certificate is checked, which Dapr does not do |
//! | `failover`, `sentinelMasterName` | the hosts are Sentinels, who know the primary by this |
//! | `sentinelUsername`, `sentinelPassword` | for the Sentinels themselves |
//! | `keyPrefix` | what stands before every key |
//!
//! Names are taken in any case; what only tunes Dapr's own client is passed over. Keys are written
//! as Dapr writes them, so that Dapr's sidecars and this server exclude each other on one Redis.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{Config, StoreConfig, Url};
use crate::failure::Failure;

/// What would change where the locks are or who may get at them, and cannot be followed.
const UNSUPPORTED: &[&str] = &["clientcert", "clientkey", "useentraid"];

impl Config {
    /// Adds the stores of the components' folder, once. Returns what was passed over, and why.
    ///
    /// # Errors
    /// `Invalid`, with the file, for one that cannot be read or used. It never repeats a value.
    pub fn load_components(&mut self) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        let Some(folder) = self.dapr.components.take() else { return Ok(notes) };
        for path in files(&folder)? {
            let named = |text: String| Failure::invalid(format!("{}: {text}", path.display()));
            let text = std::fs::read_to_string(&path)
                .map_err(|error| named(format!("it cannot be read: {error}")))?;
            let others = self.add_components(&text).map_err(named)?;
            notes.extend(others.iter().map(|why| format!("{}: {why}", path.display())));
        }
        Ok(notes)
    }

    /// Adds the stores of a file. Returns what was passed over, and why.
    pub(crate) fn add_components(&mut self, text: &str) -> Result<Vec<String>, String> {
        let mut others = Vec::new();
        for document in documents(text)? {
            match self.component(&document)? {
                Found::Store(name, store) => {
                    if self.stores.insert(name.clone(), store).is_some() {
                        return Err(format!("there are two stores {name:?}"));
                    }
                }
                Found::Other(why) => others.push(why),
            }
        }
        Ok(others)
    }

    fn component(&self, document: &Value) -> Result<Found, String> {
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind != "Component" {
            return Ok(Found::Other(format!("kind {kind:?} is passed over")));
        }
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err("metadata.name is missing".to_owned());
        }
        let what = document["spec"]["type"].as_str().unwrap_or_default();
        if what != "lock.redis" {
            let why = format!("component {name:?} of type {what:?} is passed over");
            return Ok(Found::Other(why));
        }
        if !is_for(&self.dapr.app_id, &document["scopes"]) {
            let why = format!("component {name:?} is passed over: it is for other applications");
            return Ok(Found::Other(why));
        }
        let of_name = |text| format!("component {name:?}: {text}");
        let metadata = metadata(&document["spec"]["metadata"]).map_err(of_name)?;
        let store = redis(&metadata).map_err(of_name)?;
        Ok(Found::Store(name.to_owned(), store))
    }
}

enum Found {
    Store(String, StoreConfig),
    Other(String),
}

/// The files of a folder that are YAML, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| {
        let folder = folder.display();
        Failure::invalid(format!("dapr.components, {folder}, cannot be read: {error}"))
    };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(unreadable)?.collect();
    let paths = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path());
    let is_yaml = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("yaml" | "yml")) && path.is_file()
    };
    let mut paths: Vec<_> = paths.filter(is_yaml).collect();
    paths.sort();
    Ok(paths)
}

/// The documents of a file. What is wrong is told by its line alone: there may be a password on it.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| match error.location() {
        Some(location) => format!("line {}: this is no YAML", location.line()),
        None => "this is no YAML".to_owned(),
    })
}

fn is_for(app_id: &str, scopes: &Value) -> bool {
    match scopes.as_array() {
        Some(scopes) if !scopes.is_empty() => scopes.iter().any(|scope| scope == app_id),
        _ => true,
    }
}

/// The metadata of a component, with its names in lower case.
fn metadata(items: &Value) -> Result<BTreeMap<String, String>, String> {
    let mut metadata = BTreeMap::new();
    for item in items.as_array().into_iter().flatten() {
        let name = item["name"].as_str().ok_or("an entry of spec.metadata has no name")?;
        if !item["secretKeyRef"].is_null() {
            return Err(format!(
                "{name} is a secretKeyRef, and there are no secret stores here: write it as \
                 value, or as envRef with the name of an environment variable"
            ));
        }
        let value = match (&item["value"], item["envRef"].as_str()) {
            (Value::Null, Some(variable)) => std::env::var(variable)
                .map_err(|_| format!("{name}: there is no environment variable {variable:?}"))?,
            (Value::Null, None) => String::new(),
            (Value::String(text), _) => text.clone(),
            (value @ (Value::Bool(_) | Value::Number(_)), _) => value.to_string(),
            (Value::Array(_) | Value::Object(_), _) => {
                return Err(format!("{name} must be a text, a number, true or false"));
            }
        };
        metadata.insert(name.to_lowercase(), value);
    }
    Ok(metadata)
}

fn redis(metadata: &BTreeMap<String, String>) -> Result<StoreConfig, String> {
    let get = |name: &str| metadata.get(name).map(String::as_str).filter(|text| !text.is_empty());
    if let Some(name) = UNSUPPORTED.iter().find(|name| get(name).is_some_and(|v| v != "false")) {
        return Err(format!(
            "{name} is not supported: name the store in the configuration instead"
        ));
    }
    if get("redistype").is_some_and(|layout| layout.eq_ignore_ascii_case("cluster")) {
        return Err("this component does not support connecting to Redis Cluster".to_owned());
    }
    let hosts = get("redishost").ok_or("redisHost is missing")?.replace(' ', "");
    let is_failover = get("failover").is_some_and(is_truthy);
    let tls = if get("enabletls").is_some_and(is_truthy) { "s" } else { "" };
    let layout = if is_failover { "+sentinel" } else { "" };
    let mut url = format!("redis{tls}{layout}://");
    match (get("redisusername"), get("redispassword")) {
        (user, Some(password)) => {
            url += &format!("{}:{}@", encoded(user.unwrap_or_default()), encoded(password));
        }
        (Some(_), None) => return Err("redisUsername needs redisPassword".to_owned()),
        (None, None) => {}
    }
    let database = get("redisdb").unwrap_or("0");
    let database: u32 = database.parse().map_err(|_| "redisDB must be a number".to_owned())?;
    url += &format!("{hosts}/{database}");
    if is_failover {
        let service = get("sentinelmastername").ok_or("failover needs sentinelMasterName")?;
        url += &format!("?service={}", encoded(service));
        for (name, option) in
            [("sentinelusername", "sentinel_username"), ("sentinelpassword", "sentinel_password")]
        {
            if let Some(value) = get(name) {
                url += &format!("&{option}={}", encoded(value));
            }
        }
    }
    let key_prefix = get("keyprefix").map(str::to_owned);
    Ok(StoreConfig { url: Url(url), raw_keys: true, key_secret_file: None, key_prefix })
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// What Dapr takes for yes.
fn is_truthy(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    matches!(&*text, "y" | "yes" | "true" | "t" | "on" | "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration with a folder of components that has this file.
    fn load(text: &str) -> Result<(Config, Vec<String>), Failure> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), text).unwrap();
        std::fs::write(folder.path().join("README.md"), "not: [yaml").unwrap();
        let mut config = Config::default();
        config.dapr.app_id = "app".to_owned();
        config.dapr.components = Some(folder.path().to_owned());
        config.load_components().map(|notes| (config, notes))
    }

    fn component(metadata: &str) -> String {
        format!(
            "apiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata:\n  name: locks\n\
             spec:\n  type: lock.redis\n  version: v1\n  metadata:\n{metadata}\n"
        )
    }

    fn url(metadata: &str) -> String {
        let (config, _) = load(&component(metadata)).unwrap();
        let store = &config.stores["locks"];
        assert!(store.raw_keys);
        store.url.0.clone()
    }

    fn refused(text: &str) -> String {
        let failure = load(text).unwrap_err().message;
        assert!(failure.contains("a.yaml: "), "{failure}");
        assert!(!failure.contains("hunter2"), "{failure}");
        failure
    }

    #[test]
    fn the_metadata_becomes_a_url() {
        let host = "  - name: redisHost\n    value: localhost:6379\n";
        assert_eq!(url(host), "redis://localhost:6379/0");
        let all = "  - name: REDISHOST\n    value: h:1\n  - name: redisUsername\n    value: u\n  \
                   - name: redisPassword\n    value: 'p:/@'\n  - name: redisDB\n    value: 3\n  \
                   - name: enableTLS\n    value: true\n  - name: maxRetries\n    value: 5\n";
        assert_eq!(url(all), "rediss://u:p%3A%2F%40@h:1/3");
        let sentinels = "  - name: redisHost\n    value: a:1, b:2\n  - name: failover\n    \
                         value: \"true\"\n  - name: sentinelMasterName\n    value: my master\n  \
                         - name: sentinelPassword\n    value: s\n";
        assert_eq!(
            url(sentinels),
            "redis+sentinel://a:1,b:2/0?service=my%20master&sentinel_password=s"
        );
    }

    #[test]
    fn several_documents_may_stand_in_a_file() {
        let host = "  - name: redisHost\n    value: h\n  - name: keyPrefix\n    value: none";
        let mine = component(host);
        let others = "kind: Configuration\nspec: {metric: {enabled: true}}\n---\nkind: Component\n\
                      metadata: {name: state}\nspec: {type: state.redis, metadata: []}\n";
        let scoped = mine.replace("locks", "theirs") + "scopes: [other]\n";
        let to_me = mine.replace("locks", "ours") + "scopes: [other, app]\n";
        let (config, notes) =
            load(&format!("---\n{mine}---\n{others}---\n{scoped}---\n{to_me}---\n")).unwrap();
        assert_eq!(config.stores.keys().collect::<Vec<_>>(), ["locks", "ours"]);
        assert_eq!(config.stores["locks"].key_prefix.as_deref(), Some("none"));
        assert_eq!(notes.len(), 3, "{notes:?}");
        for (note, part) in notes.iter().zip(["Configuration", "state.redis", "theirs"]) {
            assert!(note.contains(part), "{note}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_without_its_values() {
        let secret = "  - name: redisPassword\n    secretKeyRef: {name: a, key: b}\n";
        assert!(refused(&component(secret)).contains("secretKeyRef"));
        let no_host = component("  - name: redisDB\n    value: 1");
        assert!(refused(&no_host).contains("redisHost is missing"));
        let host = "  - name: redisHost\n    value: h\n";
        let with = |more: &str| refused(&component(&format!("{host}{more}")));
        assert!(with("  - name: redisType\n    value: cluster\n").contains("Cluster"));
        assert!(with("  - name: redisUsername\n    value: hunter2\n").contains("redisPassword"));
        assert!(with("  - name: failover\n    value: 1\n").contains("sentinelMasterName"));
        assert!(with("  - name: redisDB\n    value: hunter2\n").contains("redisDB"));
        assert!(with("  - name: clientKey\n    value: hunter2\n").contains("clientkey"));
        assert!(with("  - name: redisHost\n    envRef: TENURE_NO_SUCH\n").contains("NO_SUCH"));
        let twice = component(host);
        assert!(refused(&format!("{twice}---\n{twice}")).contains("two stores"));
        assert!(refused("a: b\nvalue: 'hunter2\n").contains("line "));
        assert!(refused("kind: Component\n").contains("metadata.name"));
    }

    #[test]
    fn a_folder_that_is_not_there_is_told() {
        let mut config = Config::default();
        config.dapr.components = Some("/no/such/folder".into());
        assert!(config.load_components().unwrap_err().message.contains("/no/such/folder"));
    }
}

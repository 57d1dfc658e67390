//! Who may do what.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::access::{Grants, Verb};
use crate::door::Token;
use crate::failure::Failure;
use crate::rooms::NAMESPACE;

/// Whoever brings this token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Its name, in the audit log and in what others see of a holder.
    pub name: String,
    /// The SHA-256 of the token, in hexadecimal: `printf %s "$TOKEN" | sha256sum`.
    pub sha256: String,
    /// What it allows.
    #[serde(default)]
    pub grants: Vec<GrantConfig>,
}

/// Whoever brings a certificate with this name in it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// A subject alternative name: a URI like `spiffe://example.org/billing`, or a DNS name.
    pub name: String,
    /// What it allows.
    #[serde(default)]
    pub grants: Vec<GrantConfig>,
}

/// Whoever brings neither.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestConfig {
    /// What it allows.
    #[serde(default)]
    pub grants: Vec<GrantConfig>,
}

/// Verbs on a namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantConfig {
    /// The namespace, or `*` for every one.
    pub namespace: String,
    /// `acquire`, `read`, `list`, `force`, `admin`.
    pub verbs: Vec<String>,
}

impl TokenConfig {
    /// Dapr's own token, `DAPR_API_TOKEN`: whoever brings it may do all that Dapr's API offers.
    #[must_use]
    pub fn for_dapr(token: &[u8]) -> Self {
        let sha256 = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
        let verbs = [Verb::Acquire, Verb::Force].map(|verb| verb.name().to_owned()).to_vec();
        let grants = vec![GrantConfig { namespace: NAMESPACE.to_owned(), verbs }];
        Self { name: "dapr".to_owned(), sha256, grants }
    }

    /// The token as the door knows it.
    ///
    /// # Errors
    /// `Invalid` for a bad digest or verb.
    pub fn token(&self) -> Result<Token, Failure> {
        let digest = digest(&self.sha256).ok_or_else(|| {
            let (name, size) = (&self.name, self.sha256.len());
            Failure::invalid(format!(
                "tokens.sha256 of {name:?} must have 64 hexadecimal digits, it has {size} bytes"
            ))
        })?;
        Ok(Token { name: self.name.clone(), digest, grants: grants(&self.grants)? })
    }
}

/// Grants as they are checked.
///
/// # Errors
/// `Invalid` for a verb that does not exist.
pub(crate) fn grants(configs: &[GrantConfig]) -> Result<Vec<Grants>, Failure> {
    let verb = |name: &String| {
        Verb::by_name(name).ok_or_else(|| {
            let all = Verb::ALL.map(Verb::name).join(", ");
            Failure::invalid(format!("verbs are {all}; {name:?} is none of them"))
        })
    };
    let one = |config: &GrantConfig| {
        let verbs = config.verbs.iter().map(verb).collect::<Result<_, _>>()?;
        Ok(Grants { namespace: config.namespace.clone(), verbs })
    };
    configs.iter().map(one).collect()
}

fn digest(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

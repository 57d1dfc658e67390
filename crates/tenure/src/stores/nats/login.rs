//! How a client shows who it is.

use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;

use crate::error::{Error, ErrorKind, Result};
use crate::stores::address::decoded;

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    None,
    Password { user: String, password: String },
    Token(String),
    Credentials(PathBuf),
    Nkey(PathBuf),
}

impl Login {
    /// `user:password`, or a token alone, as it stands in a URL.
    pub(super) fn in_url(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((user, password)) => {
                Ok(Self::Password { user: decoded(user)?, password: decoded(password)? })
            }
            None => decoded(text).map(Self::Token),
        }
    }

    /// What the usual variables say.
    pub(super) fn in_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        if let Some(path) = variable("NATS_CREDS") {
            Self::Credentials(path.into())
        } else if let Some(user) = variable("NATS_USER") {
            let password = variable("NATS_PASSWORD").unwrap_or_default();
            Self::Password { user, password }
        } else if let Some(token) = variable("NATS_TOKEN") {
            Self::Token(token)
        } else {
            Self::None
        }
    }

    /// `options` with this login.
    pub(super) async fn applied(&self, options: ConnectOptions) -> Result<ConnectOptions> {
        match self {
            Self::None => Ok(options),
            Self::Password { user, password } => {
                Ok(options.user_and_password(user.clone(), password.clone()))
            }
            Self::Token(token) => Ok(options.token(token.clone())),
            Self::Credentials(path) => {
                readable("credentials", path)?;
                let read = options.credentials_file(path).await;
                read.map_err(|_| Error::invalid("the credentials file holds no JWT with its seed"))
            }
            Self::Nkey(path) => {
                readable("nkey", path)?;
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
                let seed =
                    seed.ok_or_else(|| Error::invalid("the nkey file holds no user seed"))?;
                Ok(options.nkey(seed.to_owned()))
            }
        }
    }
}

/// Opens the file once, so that an error names the option.
pub(super) fn readable(option: &str, path: &Path) -> Result<()> {
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Invalid,
            };
            let text = format!("the file that the option {option} names cannot be read");
            Err(Error::new(kind, text).caused_by(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_who() {
        let by = |variables: &[(&str, &str)]| {
            Login::in_environment(|name| {
                let found = variables.iter().find(|(given, _)| *given == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let password = Login::Password { user: "u".into(), password: "p".into() };
        let all = [("NATS_USER", "u"), ("NATS_PASSWORD", "p"), ("NATS_TOKEN", "t")];
        assert!(by(&all) == password);
        assert!(by(&all[2..]) == Login::Token("t".into()));
        assert!(by(&[("NATS_CREDS", "/c"), all[2]]) == Login::Credentials("/c".into()));
        assert!(by(&[("NATS_TOKEN", "")]) == Login::None);
    }

    #[tokio::test]
    async fn a_file_that_is_no_key_is_refused_by_the_name_of_its_option() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("canary");
        for (login, word) in [
            (Login::Credentials(file.clone()), "option credentials"),
            (Login::Nkey(file.clone()), "option nkey"),
        ] {
            let error = login.applied(ConnectOptions::new()).await.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        std::fs::write(&file, "canary").unwrap();
        for login in [Login::Credentials(file.clone()), Login::Nkey(file)] {
            let error = login.applied(ConnectOptions::new()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}

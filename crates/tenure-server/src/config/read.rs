//! Reading the file, and checking what it says.

use std::path::Path;

use super::{Config, LISTEN};
use crate::failure::{Failure, without_values};

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// `Invalid`, with the place in the file, when it cannot be read or says something wrong.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::invalid(format!(
                "the configuration {} cannot be read: {error}",
                path.display()
            ))
        })?;
        Self::parse(&text)
            .map_err(|failure| Failure::invalid(format!("{}: {failure}", path.display())))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// `Invalid`, with the place in the text. It never repeats the text: there may be a password.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            Failure::invalid(format!("line {line}: {}", without_values(error.message())))
        })
    }

    /// Checks what no store and no file is needed for.
    ///
    /// # Errors
    /// As [`address`](Self::address); `Invalid` for certificates that no client is asked for.
    pub fn check(&self) -> Result<(), Failure> {
        let asks = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !self.certificates.is_empty() && !asks {
            let text = "certificates need tls.client_ca: without it no client is asked for its own";
            return Err(Failure::invalid(text));
        }
        self.forrst.gateway()?;
        self.address().map(|_| ())
    }

    /// Where to listen.
    ///
    /// # Errors
    /// `Invalid` for another address than loopback without TLS and authentication, unless that is
    /// said to be wanted.
    pub fn address(&self) -> Result<std::net::SocketAddr, Failure> {
        let address = match self.listen {
            Some(address) => address,
            None => LISTEN.parse().map_err(|_| Failure::invalid("no address to listen on"))?,
        };
        let is_safe = self.tls.is_some() && self.has_guests();
        if address.ip().is_loopback() || is_safe || self.insecure {
            return Ok(address);
        }
        Err(Failure::invalid(format!(
            "listen is {address}, which others can reach: that needs tls, and tokens or \
             certificates; or insecure = true"
        )))
    }

    /// Whether anybody has to prove who it is.
    #[must_use]
    pub fn has_guests(&self) -> bool {
        !self.tokens.is_empty() || !self.certificates.is_empty()
    }

    /// Whether everybody may do everything, because nothing is said about who may do what.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.anonymous.is_none() && !self.has_guests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let failure = Config::parse("insecure = true\nlisten = 5\n").unwrap_err();
        assert!(failure.message.starts_with("line 2: "), "{}", failure.message);
        let failure = Config::parse("[limits]\nwait = '1s'\n").unwrap_err();
        assert!(failure.message.contains("unknown field `wait`"), "{}", failure.message);
    }

    #[test]
    fn no_value_is_repeated() {
        for text in [
            "stores.a = 'redis://:s3cret@h'",
            "stores.a.url = ['redis://:s3cret@h']",
            "listen = 's3cret'",
            "on_shutdown = 's3cret'",
            "limits.ping = 's3cret'",
            "tokens = 's3cret'",
            "tokens = [{ name = 'a', sha256 = ['s3cret'] }]",
        ] {
            let failure = Config::parse(text).unwrap_err();
            assert!(failure.message.starts_with("line 1: "), "{}", failure.message);
            assert!(!failure.message.contains("s3cret"), "{}", failure.message);
        }
    }

    #[test]
    fn certificates_need_someone_who_asks_for_them() {
        let tls = "tls = { cert = 'a', key = 'b'";
        let certificate = "[[certificates]]\nname = 'a'";
        let check = |text: &str| Config::parse(text).unwrap().check();
        assert!(check(certificate).unwrap_err().message.contains("client_ca"));
        assert!(check(&format!("{tls} }}\n{certificate}")).is_err());
        assert!(check(&format!("{tls}, client_ca = 'c' }}\n{certificate}")).is_ok());
    }

    #[test]
    fn others_get_in_only_with_tls_and_a_token() {
        let address = |text: &str| Config::parse(text).unwrap().address();
        assert_eq!(address("").unwrap().to_string(), LISTEN);
        assert!(address("listen = '[::1]:1'").is_ok());
        assert!(address("listen = '0.0.0.0:7117'").is_err());
        assert!(address("listen = '0.0.0.0:7117'\ninsecure = true").is_ok());
        let tls = "listen = '0.0.0.0:1'\ntls = { cert = 'a', key = 'b' }\n";
        assert!(address(tls).is_err());
        let token = format!("{tls}[[tokens]]\nname = 'a'\nsha256 = '{}'", "0".repeat(64));
        assert!(address(&token).is_ok());
    }
}

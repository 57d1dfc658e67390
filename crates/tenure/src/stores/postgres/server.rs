//! Where the server may be and how to get in: what a URL says, and the environment where it is
//! silent.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::error::{Error, Result};
use crate::stores::options::UrlOptions;

/// Options that the client library reads, under the names that libpq gave them.
pub(super) const THEIRS: &[&str] = &[
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];
/// Those of them that say where the server is.
const WHERE: &[&str] = &["host", "hostaddr", "port"];

/// What a lock wants of a connection. A peer that is gone without a word is noticed after ten
/// seconds.
const DEFAULTS: &str = "application_name=tenure&connect_timeout=5&tcp_user_timeout=10\
                        &keepalives_idle=5&keepalives_interval=2&keepalives_retries=3";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 5432;

/// Looks up a variable of the environment.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One place where the server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// What its certificate must be for, and what is looked up unless `ip` is there.
    pub(super) host: Option<Host>,
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
}

impl Address {
    /// Whether nobody can be in between.
    fn is_local(&self) -> bool {
        match (self.ip, &self.host) {
            (Some(ip), _) => ip.is_loopback(),
            (None, Some(Host::Tcp(name))) => {
                name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
            #[cfg(unix)]
            (None, Some(Host::Unix(_))) => true,
            (None, None) => false,
        }
    }
}

/// All places where the server may be. The one that takes writes is it.
#[derive(Clone)]
pub(super) struct Servers {
    pub(super) addresses: Vec<Address>,
    /// How to get in; it names no host.
    pub(super) settings: Config,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Servers {
    /// What the URL says, and the options in it that are not about this.
    pub(super) fn read(url: &str, environment: Environment<'_>) -> Result<(Self, UrlOptions)> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains('#') {
            return Err(Error::invalid(
                "a # in the options of the store's URL must be written %23",
            ));
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let (theirs, ours): (Vec<_>, Vec<_>) = pairs.partition(|pair| THEIRS.contains(&name(pair)));
        let (_, ours) = UrlOptions::split(&format!("postgres://-?{}", ours.join("&")))?;
        let base = Base::of(base)?;
        let (places, rest): (Vec<_>, Vec<_>) =
            theirs.into_iter().partition(|pair| WHERE.contains(&name(pair)));
        let hosts = base.hosts_with(environment("PGPORT"));
        let places = parse(&format!("postgres://{hosts}?{}", places.join("&")))?;
        let Base { credentials, path, .. } = base;
        // What comes later in a URL wins.
        let settings =
            parse(&format!("postgres://{credentials}{path}?{DEFAULTS}&{}", rest.join("&")))?;
        if !settings.get_hosts().is_empty() {
            let text =
                "an @ in the store's URL must be written %40, but for the one before the host";
            return Err(Error::invalid(text));
        }
        let servers = Self {
            addresses: addresses(places, environment)?,
            settings: complete(settings, environment)?,
        };
        Ok((servers, ours))
    }

    /// How long one address may take.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.settings.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT)
    }

    /// Whether nobody can be in between.
    pub(super) fn are_local(&self) -> bool {
        self.addresses.iter().all(Address::is_local)
    }
}

fn name(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

fn parse(url: &str) -> Result<Config> {
    Config::from_str(url)
        .map_err(|error| Error::invalid("the store's URL is not one").caused_by(error))
}

/// What stands before the query, in its parts.
struct Base<'a> {
    /// With the `@` behind them.
    credentials: &'a str,
    hosts: &'a str,
    /// With the `/` before it.
    path: &'a str,
}

impl<'a> Base<'a> {
    fn of(base: &'a str) -> Result<Self> {
        let address = base.split_once(':').map_or("", |(_, rest)| rest);
        let address = match address.strip_prefix("//") {
            Some(address) => address,
            None if address.is_empty() => "",
            None => return Err(Error::invalid("the store's URL must begin with postgres://")),
        };
        let (credentials, rest) = address.split_at(address.rfind('@').map_or(0, |at| at + 1));
        let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self { credentials, hosts, path })
    }

    /// The hosts, with the port that the environment names where the URL names none.
    fn hosts_with(&self, port: Option<String>) -> String {
        let Some(port) = port else { return self.hosts.to_owned() };
        let hosts = self.hosts.split(',').map(|host| {
            match host.rsplit_once(']').map_or(host, |(_, after)| after).contains(':') {
                false if !host.is_empty() => format!("{host}:{port}"),
                _ => host.to_owned(),
            }
        });
        hosts.collect::<Vec<_>>().join(",")
    }
}

/// Where the server may be, by the URL or else by the environment.
fn addresses(mut places: Config, environment: Environment<'_>) -> Result<Vec<Address>> {
    if places.get_hosts().is_empty() && places.get_hostaddrs().is_empty() {
        let hosts = environment("PGHOST").unwrap_or_else(|| "localhost".to_owned());
        for host in hosts.split(',') {
            places.host(host);
        }
        if let (true, Some(ports)) = (places.get_ports().is_empty(), environment("PGPORT")) {
            for port in ports.split(',') {
                let port = port.parse().map_err(|_| {
                    Error::invalid("PGPORT must be a port, or one for each host with commas")
                })?;
                places.port(port);
            }
        }
    }
    let (hosts, ips, ports) = (places.get_hosts(), places.get_hostaddrs(), places.get_ports());
    let count = hosts.len().max(ips.len());
    let fits = |given: usize| given == 0 || given == count;
    if !fits(hosts.len()) || !fits(ips.len()) || !(fits(ports.len()) || ports.len() == 1) {
        let text = "the URL must name as many hosts as hostaddrs, and a port for each or for all";
        return Err(Error::invalid(text));
    }
    let address = |n| Address {
        host: hosts.get(n).cloned(),
        ip: ips.get(n).copied(),
        port: ports.get(n).or(ports.first()).copied().unwrap_or(PORT),
    };
    Ok((0..count).map(address).collect())
}

/// Fills in what the URL leaves out.
fn complete(mut settings: Config, environment: Environment<'_>) -> Result<Config> {
    if let (None, Some(user)) = (settings.get_user(), environment("PGUSER")) {
        settings.user(user);
    }
    if let (None, Some(password)) = (settings.get_password(), environment("PGPASSWORD")) {
        settings.password(password);
    }
    if let (None, Some(name)) = (settings.get_dbname(), environment("PGDATABASE")) {
        settings.dbname(name);
    }
    if settings.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(Error::invalid("target_session_attrs must be read-write"));
    }
    // Always, so that after a fail-over no read is answered by a server that has fallen behind.
    settings.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, environment: &[(&str, &str)]) -> Result<Servers> {
        let find = |name: &str| {
            let found = environment.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Ok(Servers::read(url, &find)?.0)
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: Some(Host::Tcp(host.to_owned())), ip: None, port }
    }

    #[test]
    fn the_url_wins_and_the_environment_fills_in() {
        let environment = [
            ("PGHOST", "elsewhere"),
            ("PGPORT", "6000"),
            ("PGUSER", "env"),
            ("PGPASSWORD", "env"),
            ("PGDATABASE", "env"),
        ];
        let Servers { addresses, settings } = read("postgres://me@here/db", &environment).unwrap();
        assert_eq!(addresses, [at("here", 6000)]);
        assert_eq!((settings.get_user(), settings.get_dbname()), (Some("me"), Some("db")));
        assert_eq!(settings.get_password(), Some(&b"env"[..]));
        let Servers { addresses, settings } = read("postgresql:", &environment).unwrap();
        assert_eq!(addresses, [at("elsewhere", 6000)]);
        assert_eq!((settings.get_user(), settings.get_dbname()), (Some("env"), Some("env")));
        assert_eq!(read("postgres:///db", &[]).unwrap().addresses, [at("localhost", PORT)]);
        let both = read("postgres://u:p%40w@a,b/db?hostaddr=::1,127.0.0.1", &[]).unwrap();
        let [first, second] = &both.addresses[..] else { panic!("{both:?}") };
        assert_eq!(first.ip.zip(second.ip), "::1".parse().ok().zip("127.0.0.1".parse().ok()));
        assert_eq!(both.settings.get_password(), Some(&b"p@w"[..]));
        let at_sign = read("postgres://u:p@w@a/db", &[]).unwrap_err();
        assert!(at_sign.to_string().contains("%40"), "{at_sign}");
        let uneven = read("postgres://a,b,c/db?hostaddr=::1,127.0.0.1", &[]).unwrap_err();
        assert!(uneven.to_string().contains("as many"), "{uneven}");
    }

    #[test]
    fn hosts_are_tried_until_one_takes_writes() {
        let url = "postgres://u:p@a:1,[::1],c:3/db?target_session_attrs=any";
        let servers = read(url, &[("PGPORT", "7")]).unwrap();
        assert_eq!(servers.addresses, [at("a", 1), at("::1", 7), at("c", 3)]);
        let attributes = servers.settings.get_target_session_attrs();
        assert_eq!(attributes, TargetSessionAttrs::ReadWrite);
        read("postgres://a/db?target_session_attrs=read-only", &[]).unwrap_err();
    }

    #[test]
    fn what_a_lock_wants_of_a_connection_gives_way_to_what_is_said() {
        let seconds = Duration::from_secs;
        let usual = read("postgres://a", &[]).unwrap();
        assert_eq!(usual.connect_timeout(), CONNECT_TIMEOUT);
        let Servers { settings, .. } = usual;
        assert_eq!(settings.get_application_name(), Some("tenure"));
        assert_eq!(settings.get_tcp_user_timeout(), Some(&seconds(10)));
        assert_eq!(settings.get_keepalives_idle(), seconds(5));
        assert_eq!(settings.get_keepalives_interval(), Some(seconds(2)));
        assert_eq!(settings.get_keepalives_retries(), Some(3));
        let url = "postgres://a?keepalives_idle=60&connect_timeout=30&application_name=x";
        let said = read(url, &[]).unwrap();
        assert_eq!(said.connect_timeout(), seconds(30));
        let Servers { settings, .. } = said;
        assert_eq!(settings.get_application_name(), Some("x"));
        assert_eq!(settings.get_keepalives_idle(), seconds(60));
        assert_eq!(settings.get_keepalives_interval(), Some(seconds(2)));
    }

    #[test]
    fn debug_keeps_the_password() {
        let servers = read("postgres://u:secret@h/db", &[]).unwrap();
        assert!(!format!("{servers:?} {:?}", servers.settings).contains("secret"));
    }
}

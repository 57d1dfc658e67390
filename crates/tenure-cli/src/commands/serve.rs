//! `tenure serve`: a server from its configuration to its end.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tenure_server::config::{Config, LogFormat, STORE, StoreConfig, TokenConfig, Url};
use tenure_server::{Failure as ServerFailure, Running};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::{log, store_url};

const SERVE_EXAMPLES: &str = "\
Examples:
  Serve locks on this machine, and take one.
    tenure serve
    curl -d '{\"ttl\": \"30s\"}' http://127.0.0.1:7117/v1/locks/report

  A sidecar over Redis, for any language and for Dapr's SDKs.
    TENURE_STORE=redis://10.0.0.5 tenure serve --dapr-http-port --dapr-grpc-port

Environment:
  DAPR_API_TOKEN  a token beside those of the configuration, as Dapr has it: with it set, whoever
                  calls must bring one, and this one may lock, unlock and force in the namespace
                  'default'

Signals:
  SIGTERM and SIGINT end it cleanly: streams are told, locks are given back or left as the
  configuration says. SIGHUP reads the tokens and certificates anew.";

/// Serve locks over HTTP and gRPC
///
/// One port for both. Without a store the locks are in a file of this user; over a store that is
/// shared, any number of servers give the same locks.
#[derive(Args, Debug)]
#[command(max_term_width = 100, after_long_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS", env = "TENURE_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,

    /// The store's URL [default: a file in the user's data folder]
    ///
    /// Only where the configuration has no stores. To keep a password out of the process list, use
    /// TENURE_STORE.
    #[arg(long, value_name = "URL", env = "TENURE_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// The configuration, in TOML
    #[arg(long, value_name = "FILE", env = "TENURE_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Check the configuration and open the stores, but do not serve
    #[arg(long)]
    pub(crate) check: bool,

    /// Allow another address than loopback without TLS or without tokens
    #[arg(long, env = "TENURE_INSECURE")]
    pub(crate) insecure: bool,

    /// Serve Dapr's HTTP API on this port, on 3500 when none is given
    #[arg(long, value_name = "PORT", env = "DAPR_HTTP_PORT")]
    #[arg(num_args = 0..=1, default_missing_value = "3500")]
    pub(crate) dapr_http_port: Option<u16>,

    /// Serve Dapr's gRPC API on this port, on 50001 when none is given
    #[arg(long, value_name = "PORT", env = "DAPR_GRPC_PORT")]
    #[arg(num_args = 0..=1, default_missing_value = "50001")]
    pub(crate) dapr_grpc_port: Option<u16>,

    /// A folder with Dapr's components: those of type lock.redis become stores
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dapr_components: Option<PathBuf>,

    /// The application beside which this server runs, as Dapr knows it
    #[arg(long, value_name = "NAME", env = "APP_ID")]
    pub(crate) app_id: Option<String>,

    /// Hand Forrst's calls on to this server, under the locks that they ask for
    // No parser here: clap would repeat a bad URL, and with it a password.
    #[arg(long, value_name = "URL", env = "TENURE_FORRST_UPSTREAM", hide_env_values = true)]
    pub(crate) forrst_upstream: Option<String>,

    /// Log as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Serves until it is told to end.
pub(crate) async fn serve(args: &ServeArgs) -> Result<Exit, Failure> {
    let (config, notes) = configuration(args)?;
    let telling = log::serve(&config)?;
    for note in notes {
        telling.progress(&note);
    }
    if args.check {
        Running::check(config).await.map_err(|failure| refused(&failure))?;
        telling.progress(&"the configuration is good, and the stores can be used");
        return Ok(Exit::SUCCESS);
    }
    let mut signals = Signals::listen()?;
    let running = Running::start(config).await.map_err(|failure| refused(&failure))?;
    telling.progress(&format_args!("serving on http://{}", running.address()));
    for (surface, address) in [("HTTP", running.dapr_http()), ("gRPC", running.dapr_grpc())] {
        if let Some(address) = address {
            telling.progress(&format_args!("serving Dapr's API over {surface} on {address}"));
        }
    }
    while signals.wants_reload().await {
        match configuration(args)
            .map_err(|failure| failure.to_string())
            .and_then(|(config, _)| running.reload(&config).map_err(|failure| failure.to_string()))
        {
            Ok(()) => telling.progress(&"tokens and certificates were read anew"),
            Err(failure) => telling.error(&format_args!("everything stays as it was: {failure}")),
        }
    }
    telling.progress(&"going down");
    running.shutdown().await;
    Ok(Exit::SUCCESS)
}

/// The file, and above it the environment and the flags; and what of it was passed over.
fn configuration(args: &ServeArgs) -> Result<(Config, Vec<String>), Failure> {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|failure| refused(&failure))?,
        None => Config::default(),
    };
    if let Some(app_id) = &args.app_id {
        config.dapr.app_id.clone_from(app_id);
    }
    if args.store.is_some() {
        if !config.stores.is_empty() {
            // Either could be the one that the others lock on.
            let text = "the configuration has [stores], and --store or TENURE_STORE names another";
            return Err(Failure::new(Exit::Usage, text).advise("leave one of them out"));
        }
        config.stores = [(STORE.to_owned(), own_store(args)?)].into();
        config.default_store = None;
    }
    config.dapr.components = args.dapr_components.clone().or(config.dapr.components);
    let notes = config.load_components().map_err(|failure| refused(&failure))?;
    if config.stores.is_empty() {
        config.stores = [(STORE.to_owned(), own_store(args)?)].into();
        config.default_store = None;
    }
    config.listen = args.listen.or(config.listen);
    config.insecure |= args.insecure;
    config.dapr.http_port = args.dapr_http_port.or(config.dapr.http_port);
    config.dapr.grpc_port = args.dapr_grpc_port.or(config.dapr.grpc_port);
    if let Some(url) = &args.forrst_upstream {
        config.forrst.upstream = Some(Url(url.clone()));
    }
    // One that is no text is a token too, which nobody can bring: the door is not left open.
    if let Some(token) = std::env::var_os("DAPR_API_TOKEN").filter(|token| !token.is_empty()) {
        config.tokens.push(TokenConfig::for_dapr(token.as_encoded_bytes()));
    }
    if args.log_json {
        config.log.format = LogFormat::Json;
    }
    Ok((config, notes))
}

/// The store that is named, or the one of this user.
fn own_store(args: &ServeArgs) -> Result<StoreConfig, Failure> {
    let url = store_url::resolve(args.store.as_deref())?;
    Ok(StoreConfig {
        url: Url(url.as_str().to_owned()),
        raw_keys: false,
        key_secret_file: None,
        key_prefix: None,
    })
}

fn refused(failure: &ServerFailure) -> Failure {
    let exit = match failure.code.fault().exit {
        64 => Exit::Usage,
        70 => Exit::Internal,
        _ => Exit::Store,
    };
    Failure::new(exit, failure.message.clone())
}

/// The signals that mean something to a server.
struct Signals {
    end: [Signal; 2],
    reload: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::caused(Exit::Internal, "signals cannot be listened to", &error)
            })
        };
        let end = [listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?];
        Ok(Self { end, reload: listen(SignalKind::hangup())? })
    }

    /// Waits for a signal: `true` to read anew, `false` to end.
    async fn wants_reload(&mut self) -> bool {
        let [terminate, interrupt] = &mut self.end;
        tokio::select! {
            biased;
            _ = terminate.recv() => false,
            _ = interrupt.recv() => false,
            _ = self.reload.recv() => true,
        }
    }
}

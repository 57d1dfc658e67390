//! `tenure serve`: a server from its configuration to its end.

use tenure_server::config::{Config, LogFormat, STORE, StoreConfig, Url};
use tenure_server::{Failure as ServerFailure, Running};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ServeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{log, store_url};

/// Serves until it is told to end.
pub(crate) async fn serve(args: &ServeArgs) -> Result<Exit, Failure> {
    let (config, notes) = configuration(args)?;
    let telling = log::serve(&config)?;
    for note in notes {
        telling.progress(&note);
    }
    let mut signals = Signals::listen()?;
    let running = Running::start(config).await.map_err(|failure| refused(&failure))?;
    if args.check {
        telling.progress(&"the configuration is good, and the stores can be used");
        running.shutdown().await;
        return Ok(Exit::SUCCESS);
    }
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

//! What an error was caused by.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// The first error of this type: `error` itself or one of its causes, also inside of what an `Arc`
/// or an I/O error wraps and hides from the chain.
pub(crate) fn cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |&error| inner(error)).find_map(|error| error.downcast_ref())
}

fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(shared) = error.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(&**shared);
    }
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_found_however_it_is_wrapped() {
        let tls = || rustls::Error::DecryptError;
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(io::Error::other(tls()));
        for error in [
            io::Error::other(tls()),
            io::Error::other(io::Error::other(tls())),
            io::Error::other(crate::Error::unavailable("").caused_by(tls())),
            io::Error::other(shared),
        ] {
            assert_eq!(cause::<rustls::Error>(&error), Some(&tls()), "{error:?}");
        }
        assert_eq!(cause::<rustls::Error>(&io::Error::other("none")), None);
    }
}

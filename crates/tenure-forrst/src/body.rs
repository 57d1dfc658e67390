//! The body of a request: read up to a limit, and passed over where it is not wanted.

use std::pin::Pin;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLarge,
    BrokenOff,
}

/// Reads a body up to a limit.
pub(crate) async fn read<B>(body: Pin<&mut B>, max: usize) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Unread::TooLarge),
        Err(_) => Err(Unread::BrokenOff),
    }
}

/// Passes over what is left of a body that is not wanted, within reason: an answer that overtakes
/// its request resets the stream of HTTP/2, and a client may take that for a failure of the
/// connection and never see the answer.
pub(crate) async fn pass_over<B>(body: Pin<&mut B>, max: usize)
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = Limited::new(body, max);
    while let Some(Ok(_)) = body.frame().await {}
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn what_is_too_large_is_not_read_but_passed_over() {
        let mut body = pin!(Full::new(Bytes::from_static(b"12345678")));
        assert_eq!(read(body.as_mut(), 7).await, Err(Unread::TooLarge));
        pass_over(body.as_mut(), 100).await;
        assert!(body.is_end_stream());
        let body = pin!(Full::new(Bytes::from_static(b"12345678")));
        assert_eq!(read(body, 8).await.unwrap(), "12345678");
    }
}

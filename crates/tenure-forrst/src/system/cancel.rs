//! `cancel`: ends a call of this process by its token.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{CANCEL, VERSION};
use crate::call::Call;
use crate::extension::cancellation::{Cancellations, token};
use crate::function::Function;

pub(crate) fn cancel(cancellations: &Arc<Cancellations>) -> Function {
    let cancellations = Arc::clone(cancellations);
    Function::new(CANCEL, VERSION, move |_: Call, arguments: Map<String, Value>| {
        let cancelled = token(arguments.get("token"), "/call/arguments/token")
            .and_then(|token| cancellations.cancel(&token).map(|()| token));
        async move { Ok(json!({"cancelled": true, "token": cancelled?})) }
    })
    .summary("Ends a call that is under way")
    .argument("token", json!({"type": "string", "maxLength": 100}), true, "the call's token")
    .error("CANCELLATION_TOKEN_UNKNOWN")
    .error("CANCELLATION_TOO_LATE")
    .system()
}

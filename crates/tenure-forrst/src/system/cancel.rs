//! `cancel`: ends a call of this process by its token.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{CANCEL, VERSION};
use crate::call::Call;
use crate::desk::LockDesk;
use crate::extension::cancellation::{Cancellations, token};
use crate::function::Function;
use crate::pointer::Pointer;

pub(crate) fn cancel(desk: &Arc<dyn LockDesk>, cancellations: &Arc<Cancellations>) -> Function {
    let (desk, cancellations) = (Arc::clone(desk), Arc::clone(cancellations));
    Function::new(CANCEL, VERSION, move |call: Call, arguments: Map<String, Value>| {
        let caller = desk.name(call.caller());
        let cancelled = token(arguments.get("token"), Pointer::Arguments.member("token"))
            .and_then(|token| cancellations.cancel(caller, &token).map(|()| token));
        async move { Ok(json!({"cancelled": true, "token": cancelled?})) }
    })
    .summary("Ends a call that is under way")
    .argument("token", json!({"type": "string", "maxLength": 100}), true, "the call's token")
    .error("CANCELLATION_TOKEN_UNKNOWN")
    .error("CANCELLATION_TOO_LATE")
    .system()
}

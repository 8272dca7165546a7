//! Two models behind one interface: a small one for quick decisions, a main one for the text that people read.

use std::sync::Arc;

use crate::model::{ChatModel, ChatRequest, DeltaStream, ModelInfo, ModelRole};

/// Sends each request to the model for its role.
#[derive(Clone)]
pub struct RoleRoutingModel {
    /// The model for quick decisions.
    pub small: Arc<dyn ChatModel>,
    /// The model for all other requests.
    pub main: Arc<dyn ChatModel>,
}

impl RoleRoutingModel {
    /// Returns the model for a role.
    pub fn model_for_role(&self, role: ModelRole) -> &Arc<dyn ChatModel> {
        match role {
            ModelRole::Small => &self.small,
            ModelRole::Main => &self.main,
        }
    }
}

impl ChatModel for RoleRoutingModel {
    fn info(&self) -> ModelInfo {
        self.main.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.model_for_role(role).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.model_for_role(request.role).stream(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect_reply;
    use crate::message::Message;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    #[tokio::test]
    async fn a_request_goes_to_the_model_its_role_means() {
        let small = ScriptedModel::new([ScriptedReply::text("작은")]).with_name("small");
        let main = ScriptedModel::new([ScriptedReply::text("큰")]).with_name("main");
        let both = RoleRoutingModel { small: Arc::new(small), main: Arc::new(main) };
        for (role, expected) in [(ModelRole::Small, "작은"), (ModelRole::Main, "큰")] {
            let request = ChatRequest { role, ..ChatRequest::new(vec![Message::user("m", "?")]) };
            assert_eq!(collect_reply(both.stream(request)).await.expect("reply").text, expected);
        }
        assert_eq!(both.info().name, "main");
        assert_eq!(both.info_for_role(ModelRole::Small).name, "small");
    }
}

//! Two models that look like one: a small one for quick decisions, a main one for what a person reads.

use std::sync::Arc;

use crate::model::{About, ChatModel, ChatRequest, DeltaStream, ModelRole};

/// Sends each request to the model that its role means.
#[derive(Clone)]
pub struct ByRole {
    /// Takes requests for quick decisions.
    pub small: Arc<dyn ChatModel>,
    /// Takes all others.
    pub main: Arc<dyn ChatModel>,
}

impl ByRole {
    /// The model that a role means.
    pub fn of(&self, role: ModelRole) -> &Arc<dyn ChatModel> {
        match role {
            ModelRole::Small => &self.small,
            ModelRole::Main => &self.main,
        }
    }
}

impl ChatModel for ByRole {
    fn about(&self) -> About {
        self.main.about()
    }

    fn about_role(&self, role: ModelRole) -> About {
        self.of(role).about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.of(request.role).stream(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect;
    use crate::message::Message;
    use crate::scripted::{Script, ScriptedModel};

    #[tokio::test]
    async fn a_request_goes_to_the_model_its_role_means() {
        let small = ScriptedModel::new([Script::text("작은")]).named("small");
        let main = ScriptedModel::new([Script::text("큰")]).named("main");
        let both = ByRole { small: Arc::new(small), main: Arc::new(main) };
        for (role, expected) in [(ModelRole::Small, "작은"), (ModelRole::Main, "큰")] {
            let request = ChatRequest { role, ..ChatRequest::new(vec![Message::user("m", "?")]) };
            assert_eq!(collect(both.stream(request)).await.expect("reply").text, expected);
        }
        assert_eq!(both.about().name, "main");
        assert_eq!(both.about_role(ModelRole::Small).name, "small");
    }
}

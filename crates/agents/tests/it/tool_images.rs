//! Images in the results of tools reach the vendor with the next request, in each of its dialects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::Settings;
use doran_agents::tools::{
    Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolPolicy, ToolSideEffect, Toolbox,
};
use doran_engine::store::RamStore;
use doran_llm::{
    ImageReference, ModelApiKey, ModelConfig, ModelId, ReceivedHttpRequest, ScriptedDialect, ScriptedServer,
    ScriptedVendorAnswer, TextOrigin, ToolCall, ToolSpec, open_model,
};
use serde_json::{Value, json};

use crate::agent_fixture::{agent_parts, build_fixture};

/// Gives a picture.
struct PictureTool(ToolInfo);

impl PictureTool {
    fn new() -> Self {
        let spec = ToolSpec {
            name: "picture".into(),
            description: "gives a picture".into(),
            parameters: json!({ "type": "object" }),
        };
        Self(ToolInfo {
            spec,
            ko: "그림을 줍니다".into(),
            en: "gives a picture".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: false,
            origin: TextOrigin::Tool,
            timeout: Duration::from_secs(60),
            max_output_bytes: 4000,
        })
    }
}

#[async_trait]
impl Tool for PictureTool {
    fn info(&self) -> &ToolInfo {
        &self.0
    }

    async fn call(&self, _: Value, _: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let image = ImageReference {
            url: "data:image/png;base64,aGk=".into(),
            media_type: "image/png".into(),
            origin: TextOrigin::Tool,
        };
        Ok(ToolOutput { images: vec![image], ..ToolOutput::text("a picture of a hill") })
    }
}

#[tokio::test]
async fn an_image_of_a_tool_reaches_the_vendor() {
    for dialect in ScriptedDialect::ALL {
        let calls = AtomicUsize::new(0);
        let respond = move |_: &ReceivedHttpRequest| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let call = ToolCall { id: "c1".into(), name: "picture".into(), arguments: json!({}) };
                dialect.streamed_response(&ScriptedVendorAnswer::calls([call]))
            }
            _ => dialect.streamed_response(&ScriptedVendorAnswer::text("언덕입니다.")),
        };
        let vendor = ScriptedServer::start_with_responder(respond).await.expect("a server");
        let id = ModelId { provider: dialect.provider().into(), model: "m".into(), base_url: None };
        let config = ModelConfig { base_url: Some(vendor.url()), ..ModelConfig::new(id) };
        let model = open_model(&config, ModelApiKey::new("sk-test")).expect("a model");
        let mut toolbox = Toolbox::default();
        toolbox.add(Arc::new(PictureTool::new()), ToolPolicy::Allow).expect("a sound tool");
        let parts = agent_parts(model, toolbox);
        let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
        stage.ask("무엇이 보이나요?").await;
        assert_eq!(stage.turn().await.response, "언덕입니다.", "{dialect:?}");
        let bodies: Vec<String> =
            vendor.received_requests().iter().map(|request| request.body.to_string()).collect();
        let has_image = |body: &String| body.contains("aGk=");
        assert_eq!(
            bodies.iter().map(has_image).collect::<Vec<_>>(),
            [false, true],
            "{dialect:?}: {bodies:?}"
        );
        assert!(bodies[1].contains("a picture of a hill"), "{dialect:?}: {bodies:?}");
    }
}

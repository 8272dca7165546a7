//! The files in `deploy/` and the release workflow, checked by validators that carry the official schemas.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of the environment with the validators. `None`: skipped, in words.
fn validator(name: &str) -> Option<Command> {
    let named = std::env::var_os("DORAN_TEST_DEPLOY_PYTHON").filter(|path| !path.is_empty());
    let program = named
        .map_or_else(|| repository().join(".parts/deploy-venv/bin/python"), PathBuf::from)
        .with_file_name(name);
    if !program.exists() {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "`{name}` is required");
        println!("SKIPPED: no `{name}`; run ./x test deploy / `{name}`이 없음, ./x test deploy로 실행하세요");
        return None;
    }
    Some(Command::new(program))
}

/// Runs a validator and gives what it printed if it refused the file.
fn refusal(mut command: Command) -> Option<String> {
    let output = command.current_dir(repository()).output().expect("the validator starts");
    let printed = [output.stdout, output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&printed).into_owned())
}

/// Checks that the file passes, and that the same file with one replacement does not.
fn check(validator: impl Fn() -> Option<Command>, file: &str, good: &str, bad: &str) {
    let Some(mut command) = validator() else { return };
    command.arg(file);
    assert_eq!(refusal(command), None, "{file}");

    let text = std::fs::read_to_string(repository().join(file)).expect("the file");
    assert!(text.contains(good), "{file} has no {good:?}");
    let here = tempfile::tempdir().expect("a directory");
    let broken = here.path().join("broken.yaml");
    std::fs::write(&broken, text.replacen(good, bad, 1)).expect("written");
    let mut command = validator().expect("it was there");
    command.arg(&broken);
    assert!(refusal(command).is_some(), "{file} with {bad:?} is accepted");
}

fn builtin_schema(name: &str) -> Option<Command> {
    let mut command = validator("check-jsonschema")?;
    command.args(["--builtin-schema", name]);
    Some(command)
}

#[test]
fn the_kubernetes_manifests_fit_the_schema_of_kubernetes() {
    let validate = || {
        let mut command = validator("kubernetes-validate")?;
        command.arg("--strict");
        Some(command)
    };
    check(validate, "deploy/kubernetes/doran.yaml", "readinessProbe:", "readynessProbe:");
}

/// The paths that the Ingress publishes, and whether each stands for all below it.
fn published_paths() -> Vec<(String, bool)> {
    let manifest = std::fs::read_to_string(repository().join("deploy/kubernetes/doran.yaml")).expect("it");
    let ingress = manifest.split("kind: Ingress").nth(1).expect("an Ingress");
    let paths = ingress.lines().filter_map(|line| line.trim().strip_prefix("- { path: "));
    paths
        .map(|line| (line.split(',').next().expect("a path").to_owned(), line.contains("pathType: Prefix")))
        .collect()
}

#[test]
fn the_ingress_publishes_every_route_but_those_for_probes_and_monitoring() {
    let published = published_paths();
    let is_published = |path: &str| {
        published.iter().any(|(known, is_prefix)| {
            path == known || *is_prefix && path.strip_prefix(known).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let server = repository().join("crates/server");
    let document = std::fs::read_to_string(server.join("openapi.json")).expect("the API");
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let mut routes: Vec<String> = document["paths"].as_object().expect("paths").keys().cloned().collect();
    for file in ["src/routes/mod.rs", "src/routes/docs.rs"] {
        let source = std::fs::read_to_string(server.join(file)).expect("routes");
        let pages = source.split("ApiRoute::web_page(\"").skip(1);
        routes.extend(pages.map(|rest| rest.split('"').next().expect("a path").to_owned()));
    }
    assert!(routes.len() > 60, "{routes:?}");
    for route in routes {
        let is_internal = ["/metrics", "/healthz", "/readyz"].contains(&route.as_str());
        assert_eq!(is_published(&route), !is_internal, "{route}");
    }
}

#[test]
fn the_compose_file_fits_the_compose_specification() {
    check(|| builtin_schema("vendor.compose-spec"), "deploy/compose.yaml", "healthcheck:", "healthchek:");
}

#[test]
fn the_release_workflow_fits_the_schema_of_github() {
    check(
        || builtin_schema("vendor.github-workflows"),
        ".github/workflows/release.yml",
        "runs-on:",
        "run-on:",
    );
}

/// `systemd-analyze verify` also complains that the program is not installed, so only other complaints count.
#[test]
fn the_systemd_unit_is_understood_by_systemd() {
    let verify = |unit: &Path| {
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output().ok()?;
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        Some(
            complaints
                .lines()
                .filter(|line| !line.contains("is not executable"))
                .collect::<Vec<_>>()
                .join("\n"),
        )
    };
    let unit = repository().join("deploy/systemd/doran.service");
    let Some(complaints) = verify(&unit) else {
        println!("SKIPPED: no `systemd-analyze` / `systemd-analyze`가 없음");
        return;
    };
    assert_eq!(complaints, "");

    let text = std::fs::read_to_string(&unit).expect("the unit");
    let here = tempfile::tempdir().expect("a directory");
    let broken = here.path().join("broken.service");
    std::fs::write(&broken, text.replacen("ProtectSystem=strict", "ProtectSystem=strickt", 1))
        .expect("written");
    assert_ne!(verify(&broken).expect("it was there"), "");
}

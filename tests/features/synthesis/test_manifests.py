"""Owns the proof that dependencies and entry points are what the manifests of each language say, with their lines."""

import pytest

from holdfast.features.synthesis.sources.manifests import is_manifest, parse_manifest

POM = """<project>
  <artifactId>lighthouse</artifactId>
  <description>Keeps ships away</description>
  <dependencyManagement><dependencies>
    <dependency><artifactId>only-a-version</artifactId></dependency>
  </dependencies></dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>org.example</groupId>
      <artifactId>lamp</artifactId>
    </dependency>
    <dependency>
      <artifactId>junit</artifactId>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build><plugins><plugin><artifactId>shade</artifactId></plugin></plugins></build>
</project>"""
GEMSPEC = """Gem::Specification.new 'beacon', version do |s|
  s.summary = 'A lamp for ships'
  s.executables = ['beacon']
  s.add_dependency 'rack', '>= 3.0'
  s.add_development_dependency 'minitest'
end"""
SETUP = """[metadata]
name = harbour
description = Where ships rest

[options]
install_requires =
    attrs>=20
    # a remark
    idna ; python_version > "3"

[options.entry_points]
console_scripts =
    harbour = harbour.cli:main
"""
COMPOSER = '{"name": "org/quay", "require": {"php": ">=8", "ext-json": "*", "psr/log": "^3"}, "bin": ["bin/quay"]}'
GRADLE = """dependencies {
    implementation 'com.squareup.okio:okio:3.0'
    testImplementation("junit:junit:4")
    api("org.slf4j:slf4j-api:2.0")
}"""


@pytest.mark.parametrize(
    ("path", "text", "dependencies", "entry_points"),
    [
        ("pom.xml", POM, [("lamp", 10)], []),
        ("beacon.gemspec", GEMSPEC, [("rack", 4)], [("beacon", 3)]),
        ("setup.cfg", SETUP, [("attrs", 7), ("idna", 9)], [("harbour", 13)]),
        ("composer.json", COMPOSER, [("psr/log", 1)], [("bin/quay", 1)]),
        ("build.gradle", GRADLE, [("com.squareup.okio:okio", 2), ("org.slf4j:slf4j-api", 4)], []),
        ("Gemfile", "source 'x'\ngem 'puma'\n# gem 'thin'\n", [("puma", 2)], []),
        ("requirements.txt", "-r base.txt\nhttpx==0.27 # pinned\n", [("httpx", 2)], []),
        ("go.mod", "module a.org/b\nrequire (\n\tc.org/d v1\n\te.org/f v1 // indirect\n)\n", [("c.org/d", 3)], []),
        ("Cargo.toml", '[package]\nname = "x"\n[dependencies]\nhttp = "1"\n', [("http", 4)], []),
    ],
)
def test_a_manifest_says_what_is_needed_and_what_is_run_with_the_line(
    path: str, text: str, dependencies: list[tuple[str, int]], entry_points: list[tuple[str, int]]
) -> None:
    made = parse_manifest(path, text.splitlines())
    assert is_manifest(path) and made is not None
    assert [(each.name, each.line) for each in made.dependencies] == dependencies
    assert [(each.name, each.line) for each in made.entry_points] == entry_points


def test_a_manifest_names_and_describes_its_project() -> None:
    told = [parse_manifest("pom.xml", POM.splitlines()), parse_manifest("setup.cfg", SETUP.splitlines())]
    assert [(made.name, made.description, made.description_line) for made in told if made] == [
        ("lighthouse", "Keeps ships away", 3),
        ("harbour", "Where ships rest", 3),
    ]


@pytest.mark.parametrize("path", ["composer.json", "pyproject.toml"])
def test_a_broken_manifest_says_nothing(path: str) -> None:
    assert parse_manifest(path, ["{{{"]) is None


def test_tags_without_an_end_do_no_harm() -> None:
    made = parse_manifest("pom.xml", ["<project><dependencies>" * 2_000, "</dependency>" * 2_000])
    assert made is not None and made.dependencies == []

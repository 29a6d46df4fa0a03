// Package extra checks generated user data with the programs that read it: cloud-init's own schema, shellcheck,
// systemd's unit checker, and the kubelet's own configuration code. The product's go.mod cannot require these programs,
// because they are not Go modules or are too big. Therefore these tests have a build tag and a separate make target,
// make test-extra. A missing program is a failure that says what to install; no test is skipped.
package extra

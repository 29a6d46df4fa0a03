// Package extra holds generated user data against the programs that will read it: cloud-init's own schema, shellcheck,
// systemd's unit checker, and the kubelet's own code for its configuration. They are not Go modules, or too big to be one of
// the product's, so these tests have a build tag and a target of their own, make test-extra. A program that is missing is a
// failure that says what to install; nothing is skipped.
package extra

package main

import (
	"fmt"
	"strings"
)

// forgive makes every CEL rule under the schema accept a value that has not changed, unless the rule itself uses oldSelf. Stored
// objects may break a rule, because machine-controller's schemas had none. Kubernetes does not evaluate a rule for an unchanged value
// when an object is written; but before version 1.33 it does so when only the status is written. A rule below a list without
// keys cannot use oldSelf: the API server refuses such a CRD.
func forgive(schema object) error {
	return walk(schema, func(_ string, at object) error {
		rules, _ := at["x-kubernetes-validations"].([]any)
		for _, rule := range rules {
			rule, ok := rule.(object)
			if !ok {
				return fmt.Errorf("decoding: a rule is not a mapping")
			}
			if text := fmt.Sprint(rule["rule"]); !strings.Contains(text, "oldSelf") {
				rule["rule"] = "(oldSelf.hasValue() && oldSelf.value() == self) || (" + text + ")"
				rule["optionalOldSelf"] = true
			}
		}
		return nil
	})
}

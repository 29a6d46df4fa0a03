package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheWordCheckMakesTheSameCorrectionOnlyOnceAndFormatsTheCorrectedGoFile(t *testing.T) {
	const source = "package a\n\nvar a = map[string]int{\n\t\"F-1 a\": 1,\n\t\"b\":     2,\n}\n"
	const want = "package a\n\nvar a = map[string]int{\n\t\"a (F-1)\": 1,\n\t\"b\":       2,\n}\n"
	found, err := checkGo("a_test.go", []byte(source))
	if err != nil || len(found) != 1 {
		t.Fatalf("checkGo() = %+v, %v, want one finding", found, err)
	}
	got, err := applied([]byte(source), []edit{found[0].edit, found[0].edit})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

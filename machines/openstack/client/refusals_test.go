package client

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/drover-project/drover/machines/fault"
)

// moreRefusals names further tables for TestClassOfEachRefusalOfACloud.
var moreRefusals = flag.String("refusals", "", "TSV files with further refusals, separated by commas (docs/testing.md)")

// TestClassOfEachRefusalOfACloud walks the tables in testdata and those of the flag -refusals. A row with a call is an answer to it; a row
// without one is the fault of a server in ERROR.
func TestClassOfEachRefusalOfACloud(t *testing.T) {
	files := []string{filepath.Join("testdata", "refusals.tsv"), filepath.Join("testdata", "serverfaults.tsv")}
	if *moreRefusals != "" {
		files = append(files, strings.Split(*moreRefusals, ",")...)
	}
	t.Run("each refusal and fault has the class that is right for an operator with an autoscaler (F-108)", func(t *testing.T) {
		for _, file := range files {
			for _, row := range readRefusals(t, file) {
				t.Run(row.name(), func(t *testing.T) {
					got := row.judge(t)
					if !row.allows(got) {
						t.Errorf("%s: got %s/%s: %s", row["id"], got.Class, got.Code, got.Message)
					}
					if fault.ClassOf(got.Code) != got.Class {
						t.Errorf("the code %s alone means %s", got.Code, fault.ClassOf(got.Code))
					}
				})
			}
		}
	})
}

// tableRow is a row of a table of refusals, by the names of its columns.
type tableRow map[string]string

// readRefusals reads a file of tab-separated values. Its first line has the names of the columns. In a value, \n is a line feed, \t a tab,
// \r a carriage return, and \\ a backslash.
func readRefusals(t *testing.T, file string) []tableRow {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r")
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	columns := strings.Split(lines[0], "\t")
	var rows []tableRow
	for n, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != len(columns) {
			t.Fatalf("%s:%d has %d fields, and the first line has %d", file, n+2, len(fields), len(columns))
		}
		row := tableRow{}
		for i, column := range columns {
			row[column] = unescape.Replace(fields[i])
		}
		rows = append(rows, row)
	}
	return rows
}

func (r tableRow) name() string {
	what := "a server's fault"
	if r["call"] != "" {
		what = r["call"] + " answered with " + r["status"]
	}
	return strings.TrimSpace(fmt.Sprintf("%s means %s: %s %s", what, strings.ReplaceAll(r["right_class"], "|", " or "), r["why"], r["source"]))
}

// allows reports whether the class, and the code if the table names one, is one of those that are right.
func (r tableRow) allows(got *fault.Error) bool {
	for _, right := range strings.Split(r["right_class"], "|") {
		class, code, _ := strings.Cut(right, "/")
		if fault.Class(class) == got.Class && (code == "" || fault.Code(code) == got.Code) {
			return true
		}
	}
	return false
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// judge returns what drover makes of the row. An ID in the path of the call is the first one in the body.
func (r tableRow) judge(t *testing.T) *fault.Error {
	t.Helper()
	if r["call"] == "" {
		code, err := strconv.Atoi(r["code"])
		if err != nil {
			t.Fatal(err)
		}
		return ServerFault("id", code, r["body"])
	}
	call := strings.Fields(r["call"])
	id := uuid.FindString(r["body"])
	if id == "" {
		id = "3fd0a2b6-3c55-4bd5-9ac0-6f0b3b9ccf0f"
	}
	path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(call[1], id)
	service := Service(strings.TrimSuffix(strings.TrimPrefix(r["service"], "gateway ("), ")"))
	path = map[Service]string{
		Compute: "/v2.1", Network: "/v2.0", Image: "/v2", Volume: "/v3/0123456789abcdef0123456789abcdef", Identity: "",
	}[service] + path
	status, err := strconv.Atoi(r["status"])
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	for _, line := range strings.Split(r["headers"], "; ") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			header.Set(key, value)
		}
	}
	return fault.Of(classify(Call{Service: service, Doing: "making it"}, gophercloud.ErrUnexpectedResponseCode{
		Method: call[0], URL: "http://cloud" + path, Actual: status, Body: []byte(r["body"]), ResponseHeader: header,
	}, nil))
}

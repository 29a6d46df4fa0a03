package client

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

func TestPages(t *testing.T) {
	const most = 64
	space := strings.Repeat(" ", 3*most)
	large := `"` + strings.Repeat("x", 3*most) + `"`
	for name, tc := range map[string]struct {
		body, rows, next string
		refused          bool // the error says that something other than an OpenStack service answered
		cut              bool // the error says that the body ended too early
	}{
		"a page without a link is the last":                      {body: `{"servers":[1,2]}`, rows: "1 2"},
		"a link may come after the rows":                         {body: `{"servers":[1],"servers_links":[{"rel":"next","href":"http://x/?a=b"}]}`, rows: "1", next: "a=b"},
		"a link may come before the rows":                        {body: `{"servers_links":[{"rel":"prev","href":"?c"},{"rel":"next","href":"?a=b"}],"servers":[1]}`, rows: "1", next: "a=b"},
		"the link may be a field, as Glance has it":              {body: `{"servers":[1],"next":"/v2?a=b","first":"/v2"}`, rows: "1", next: "a=b"},
		"a page without the field, or with null, has no rows":    {body: `{"servers":null,"other":{"servers":[1]}}`},
		"a page may have any number of rows":                     {body: `{"servers":[1` + strings.Repeat(",1", 3*most) + `]}`, rows: strings.TrimSpace(strings.Repeat("1 ", 3*most+1))},
		"a large row is refused (F-98)":                          {body: `{"servers":[1,` + large + `]}`, rows: "1", refused: true},
		"a large value of another field is refused (F-98)":       {body: `{"other":` + large + `}`, refused: true},
		"a large name of a field is refused (F-98)":              {body: `{` + large + `:1}`, refused: true},
		"a large link is refused (F-98)":                         {body: `{"servers":[1],"next":` + large + `}`, rows: "1", refused: true},
		"white space without end is refused before a row (F-98)": {body: `{"servers":[` + space + `1]}`, refused: true},
		"white space without end is refused after a row (F-98)":  {body: `{"servers":[1` + space + `]}`, rows: "1", refused: true},
		"white space without end is refused at the end (F-98)":   {body: `{"servers":[1]` + space + `}`, rows: "1", refused: true},
		"an array is refused":                                    {body: `[1]`, refused: true},
		"a field that is not an array is refused":                {body: `{"servers":{"a":1}}`, refused: true},
		"an incomplete page is an error after its rows":          {body: `{"servers":[1,`, rows: "1", cut: true},
		"a page without its last brace is an error":              {body: `{"servers":[1]`, rows: "1", cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.NewReader(tc.body)
			in := newRows(body, most)
			var rows []string
			next, err := readPage(in, "servers", func(row json.RawMessage) error {
				rows = append(rows, string(row))
				if ahead := int64(len(tc.body)-body.Len()) - in.InputOffset(); ahead > most {
					t.Errorf("%d bytes were read ahead, want at most %d", ahead, most)
				}
				return nil
			})
			if got := strings.Join(rows, " "); got != tc.rows || next.Encode() != tc.next {
				t.Errorf("got the rows %q and the next page %q", got, next.Encode())
			}
			e := fault.Of(err)
			foreign := e != nil && e.Code == fault.CodeForeignAnswer
			cut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if foreign != tc.refused || cut != tc.cut || err != nil && !foreign && !cut {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a page is not read further when a row is refused", func(t *testing.T) {
		refusal := errors.New("too many")
		_, err := readPage(newRows(strings.NewReader(`{"servers":[1,2]}`), most), "servers", func(int) error { return refusal })
		if !errors.Is(err, refusal) {
			t.Errorf("got %v", err)
		}
	})
}

package steps

import "testing"

func TestControlCharactersAreRemovedFromConsoleOutput(t *testing.T) {
	got := printable("\x1b[31mred\x1b[0m\r\nnext\x00")
	if want := "red\nnext"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

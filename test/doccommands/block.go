package doccommands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is one fenced block of a page whose language is sh.
type Block struct {
	// Page is the path of the page in the repository. Line is the line at which the block begins, counted from 1.
	Page string
	Line int
	// Name is the name of the block in tests. NotRun is the reason why no test runs the block. Both are from the
	// comment above the block, and empty without a comment.
	Name, NotRun string
	// Commands are the lines of the block, without the indentation of the list around it.
	Commands string
}

// ID returns the ID of the block in tests, such as docs/operations.md#backup.
func (b Block) ID() string { return b.Page + "#" + b.Name }

const (
	fence    = "```"
	drawings = "─│▶"
)

var (
	mark = regexp.MustCompile(`^<!-- (test|not run): (.+) -->$`)
	name = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// otherShells matches the first line of a block in another language for shells. Such a block is an error, because the tests
	// read only blocks whose language is sh.
	otherShells = regexp.MustCompile("^```(bash|shell|console|zsh|shell-session)$")
	// command matches the beginning of a line that is a shell command, in contrast to a line of a drawing.
	command = regexp.MustCompile(`^(\$ )?(kubectl|helm|openstack|make|go|drover|etcdctl|etcdutl) `)
)

// Read returns the blocks of a page. root is the folder of the repository.
func Read(root, page string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, fmt.Errorf("reading commands of a page: %w", err)
	}
	return parse(page, string(text))
}

// parse returns the blocks of a page. The error names the line of a comment or block that cannot be parsed.
func parse(page, text string) (blocks []Block, err error) {
	r := reader{page: page}
	for line := range strings.Lines(text) {
		r.line++
		if err := r.read(strings.TrimRight(line, "\n")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", page, r.line, err)
		}
	}
	if r.open != nil {
		return nil, fmt.Errorf("%s:%d: the block is not closed", page, r.open.Line)
	}
	return r.blocks, nil
}

// reader reads a page line by line.
type reader struct {
	page string
	line int
	// above is the last line with text before the current one.
	above string
	// open is the current block in any language, or nil between blocks.
	open *Block
	// shell is true when the language of the current block is sh. plain is true when the block has no language.
	shell, plain bool
	indent       string
	blocks       []Block
}

func (r *reader) read(line string) error {
	text := strings.TrimSpace(line)
	switch {
	case r.open != nil && text == fence:
		if r.shell {
			r.blocks = append(r.blocks, *r.open)
		}
		r.open, r.above = nil, text
	case r.open != nil:
		if r.plain && command.MatchString(text) && !strings.ContainsAny(text, drawings) {
			return fmt.Errorf("%q stands in a block without a language: begin the block with %ssh", text, fence)
		}
		r.open.Commands += strings.TrimPrefix(line, r.indent) + "\n"
	case strings.HasPrefix(text, fence):
		return r.begin(line, text)
	case text != "":
		r.above = text
	}
	return nil
}

// begin reads the first line of a block.
func (r *reader) begin(line, text string) error {
	if otherShells.MatchString(text) {
		return fmt.Errorf("the language of commands is sh, not %s", strings.TrimPrefix(text, fence))
	}
	r.open = &Block{Page: r.page, Line: r.line}
	r.shell, r.plain = text == fence+"sh", text == fence
	r.indent = line[:strings.Index(line, fence)]
	if !r.shell || !strings.HasPrefix(r.above, "<!-- ") {
		return nil
	}
	return r.open.marked(r.above)
}

// marked parses the comment above a block, and sets the block's Name or NotRun.
func (b *Block) marked(comment string) error {
	found := mark.FindStringSubmatch(comment)
	switch {
	case found == nil:
		return fmt.Errorf("the comment above the block must be <!-- test: NAME --> or <!-- not run: REASON -->, not %s", comment)
	case found[1] == "not run":
		b.NotRun = found[2]
	case !name.MatchString(found[2]):
		return fmt.Errorf("the name %q of a block may have small letters, digits and single dashes", found[2])
	default:
		b.Name = found[2]
	}
	return nil
}

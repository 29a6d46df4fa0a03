// Package settings reads the configured cloud: a cloud of a clouds.yaml, with its secure.yaml and clouds-public.yaml, or the OS_*
// variables. OpenStack's own Python clients are the reference. Each key, alias and variable is carried out, or named in
// Credentials.Notes because it has no effect, or refused. One table, [Keys], says which.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Source is where the configured cloud is.
type Source struct {
	// CloudsYAML, Cloud and CABundle are the flags --clouds-yaml, --cloud and --cloud-ca; each may be empty. CABundle counts before
	// the cacert of the cloud.
	CloudsYAML, Cloud, CABundle string
	// Environ are the variables of the process, each as name=value. OS_CLIENT_CONFIG_FILE, OS_CLOUD and OS_CLIENT_SECURE_FILE name a
	// clouds.yaml, the cloud in it, and a secure.yaml. All others starting with OS_ are only read without a clouds.yaml.
	Environ []string
}

// Selectors are the variables that say where the configured cloud is, with what drover does with each.
var Selectors = map[string]string{
	"OS_CLIENT_CONFIG_FILE": "the `clouds.yaml`; `--clouds-yaml` counts before it",
	"OS_CLOUD":              "the cloud in `clouds.yaml`; `--cloud` counts before it. Refused without a `clouds.yaml`",
	"OS_CLIENT_SECURE_FILE": "the `secure.yaml`, in place of the one beside `clouds.yaml`",
}

// Read returns the credentials of the configured cloud; the zero value when none is configured. An error lists everything that is
// refused, each with the cloud, the key and the remedy. Nothing is sent.
func Read(from Source) (client.Credentials, error) {
	variables := variablesOf(from.Environ)
	file, secure, name := variables["CLIENT_CONFIG_FILE"], variables["CLIENT_SECURE_FILE"], cmp.Or(from.Cloud, variables["CLOUD"])
	for selector := range Selectors {
		delete(variables, strings.TrimPrefix(selector, "OS_"))
	}
	flag := "OS_CLIENT_CONFIG_FILE"
	if from.CloudsYAML != "" {
		flag, file = "--clouds-yaml", from.CloudsYAML
	}
	r := reader{settings: layer{}, draft: draft{Credentials: &client.Credentials{Source: "the configured cloud (OS_* variables)"}}}
	switch {
	case file != "":
		if err := r.clouds(file, secure, name); err != nil {
			return client.Credentials{}, fmt.Errorf("reading %s %s: %w", flag, file, err)
		}
		r.prefix = fmt.Sprintf("%s %s: cloud %s: ", flag, file, r.name)
		r.draft.Source = fmt.Sprintf("the configured cloud (%s of %s)", r.name, filepath.Base(file))
		if len(variables) > 0 {
			r.note("OS_"+strings.Join(slices.Sorted(maps.Keys(variables)), ", OS_"), "no effect beside a clouds.yaml")
		}
	case name != "":
		return client.Credentials{}, errors.New("--cloud or OS_CLOUD names a cloud of a clouds.yaml: --clouds-yaml is needed with it")
	default:
		for _, key := range slices.Sorted(maps.Keys(variables)) {
			r.wrong = append(r.wrong, r.settings.put("OS_"+key, strings.ToLower(key), variables[key]))
		}
		r.wrong = append(r.wrong, r.region())
	}
	if from.CABundle != "" {
		r.settings["cacert"] = setting{"--cloud-ca", from.CABundle}
	}
	r.decode()
	if err := errors.Join(r.wrong...); err != nil {
		return client.Credentials{}, err
	}
	return *r.draft.Credentials, nil
}

// variablesOf returns the variables of OpenStack, without OS_. Those of its tests and its log library are not settings of a cloud.
func variablesOf(environ []string) map[string]string {
	all := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		key, is := strings.CutPrefix(name, "OS_")
		if is && value != "" && !strings.HasPrefix(key, "TEST") && !strings.HasPrefix(key, "STD") && !strings.HasPrefix(key, "LOG") {
			all[key] = value
		}
	}
	return all
}

// reader reads one cloud. Its methods collect errors in wrong, so that all of them are reported at once.
type reader struct {
	name string
	// prefix is the file and the cloud, for errors.
	prefix   string
	settings layer
	draft    draft
	wrong    []error
}

func (r *reader) refuse(format string, args ...any) {
	r.wrong = append(r.wrong, errors.New(r.prefix+fmt.Sprintf(format, args...)))
}

// note records a setting that has no effect, for the log and the Warnings condition.
func (r *reader) note(at, why string) {
	r.draft.Notes = append(r.draft.Notes, at+": "+why)
}

// clouds reads the cloud from clouds.yaml, the secure.yaml, whose settings count before those of clouds.yaml, and the profile, which
// counts last.
func (r *reader) clouds(file, secure, name string) error {
	main, err := load(file)
	if err != nil {
		return err
	}
	secret, secureName, err := beside(file, "secure")
	if secure != "" {
		secureName = secure
		secret, err = load(secure)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", secureName, err)
	}
	both := map[string]yaml.Node{}
	maps.Copy(both, main.Clouds)
	maps.Copy(both, secret.Clouds)
	names := slices.Sorted(maps.Keys(both))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	switch {
	case len(names) == 0:
		return errors.New("there is no cloud in it; write one under clouds")
	case !slices.Contains(names, name):
		return fmt.Errorf("no cloud %q; it has: %s", name, strings.Join(names, ", "))
	}
	r.name = name
	own, hidden := layer{}, layer{}
	err = errors.Join(own.read("", main.Clouds[name]), hidden.read(filepath.Base(secureName)+": ", secret.Clouds[name]))
	if err == nil {
		r.settings = hidden.over(own)
		err = r.profile(file)
	}
	if err == nil {
		err = r.region()
	}
	if err != nil {
		return fmt.Errorf("cloud %s: %w", name, err)
	}
	return nil
}

// profile puts the settings of the cloud's profile below its own.
func (r *reader) profile(file string) error {
	wanted, ok := r.settings["profile"]
	if !ok {
		return nil
	}
	public, publicName, err := beside(file, "clouds-public")
	if err != nil {
		return fmt.Errorf("%s: %w", publicName, err)
	}
	name, _ := wanted.value.(string)
	entry, ok := public.Profiles[name]
	if !ok {
		return fmt.Errorf("%s: %v is not a profile of a file clouds-public.yaml beside clouds.yaml, and drover has no other ones; write what it has, such as auth_url, into the cloud", wanted.at, wanted.value)
	}
	low := layer{}
	if err := low.read(publicName+": ", entry); err != nil {
		return err
	}
	_, one := r.settings["region_name"]
	_, several := r.settings["regions"]
	if one || several {
		delete(low, "region_name")
		delete(low, "regions")
	}
	r.settings = r.settings.over(low)
	return nil
}

// region chooses the region. Of several it is the first, with its values above the cloud's.
func (r *reader) region() error {
	chosen, ok := r.settings["regions"]
	if list, _ := chosen.value.([]any); len(list) == 0 {
		chosen, ok = r.settings["region_name"]
	}
	if !ok {
		return nil
	}
	delete(r.settings, "regions")
	list, isList := chosen.value.([]any)
	text, isText := chosen.value.(string)
	if isText {
		for _, part := range strings.Split(text, ",") {
			list = append(list, part)
		}
	}
	switch {
	case !isText && !isList:
		return fmt.Errorf("%s: is not a list of regions", chosen.at)
	case len(list) == 0:
		return nil
	}
	name, values := list[0], layer{}
	if entry, ok := name.(map[string]any); ok {
		name = entry["name"]
		over, _ := entry["values"].(map[string]any)
		if err := values.add(chosen.at+": values.", over); err != nil {
			return err
		}
	}
	if text, ok = name.(string); !ok {
		return fmt.Errorf("%s: an entry is neither a name nor a mapping with name and values", chosen.at)
	}
	if len(list) > 1 {
		r.note(chosen.at, fmt.Sprintf("of these regions only the first, %s, has an effect, unless a Machine names another", text))
	}
	r.settings = values.over(r.settings)
	r.settings["region_name"] = setting{chosen.at, text}
	return nil
}

// hint asks whether the key of the table that is most similar is meant; empty when none is similar. prefix is auth. or OS_.
func hint(key, prefix string) string {
	var names []string
	for _, k := range Keys {
		if k.ways != "" || prefix != "auth." {
			names = append(names, k.Name)
		}
	}
	alike := strings.Join(v1alpha1.Nearest(normal(key), names, 1), "")
	switch {
	case alike == "":
		return ""
	case prefix == "OS_":
		alike = strings.ToUpper(alike)
	}
	return "did you mean " + prefix + alike + "?"
}

// fileOf returns the content of the file that a setting names.
func (r *reader) fileOf(s setting) []byte {
	path, _ := s.value.(string)
	raw, err := os.ReadFile(path)
	if err != nil {
		r.refuse("reading %s: %v; correct the path", s.at, err)
	}
	return raw
}

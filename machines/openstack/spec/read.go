package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Spec returns the fields other than credentials. It does not check what only the cloud can answer. Its error names everything that is
// wrong.
func (s *Sources) Spec() (*Spec, error) {
	s.origin = newProvenance()
	got := &Spec{source: s.layers[0].source, origin: s.origin}
	errs := slices.Clone(s.refused)
	text := func(names ...string) found {
		f, err := s.text(names...)
		errs = append(errs, err)
		return f
	}
	required := func(name string) string {
		before := len(errs)
		f := text(name)
		if errs[before] == nil && !f.given() {
			errs = append(errs, invalid(got.source+"."+name, "is missing; set the %s of the servers", name))
		}
		return f.text
	}
	flag := func(name string) bool {
		on, _ := strconv.ParseBool(text(name).text)
		return on
	}
	got.Flavor, got.Image = required("flavor"), required("image")
	got.AvailabilityZone, got.Subnet, got.FloatingIPPool = text("availabilityZone").text, text("subnet").text, text("floatingIpPool").text
	got.RootDiskVolumeType, got.KeyName, got.ComputeAPIVersion = text("rootDiskVolumeType").text, text("keyName").text, text("computeAPIVersion").text
	group := text("serverGroupID", "serverGroup")
	got.ServerGroup, got.ServerGroupField = group.text, group.field
	groups, _ := s.highest("securityGroups")
	got.SecurityGroups, errs = groups.list(), append(errs, groups.err)
	networks, err := s.networks(text("network"))
	got.Networks, errs = networks, append(errs, err)
	got.ConfigDrive, got.DisablePortSecurity = flag("configDrive"), flag("disablePortSecurity")
	got.RootDiskSizeGB, _ = strconv.Atoi(text("rootDiskSizeGB").text)
	errs = append(errs, got.readTags(s))
	got.dropIdle(s)
	if err := Together(errs...); err != nil {
		return nil, err
	}
	if got.ServerGroup == "" && s.reader.options.SharedServerGroup {
		got.ServerGroup = SharedServerGroup
	}
	return got, nil
}

// networks returns the networks. network and networks are one field: both are read from the highest layer that has either.
func (s *Sources) networks(first found) (all []string, err error) {
	more, from := s.highest("networks")
	if first.given() && (from < 0 || first.from <= from) {
		all = append(all, first.text)
	}
	if from >= 0 && (!first.given() || from <= first.from) {
		all = append(all, more.list()...)
	}
	return unique(all), more.err
}

// dropIdle clears each field that has no effect because of another field, and adds a warning.
func (s *Spec) dropIdle(from *Sources) {
	if s.RootDiskVolumeType != "" && s.RootDiskSizeGB == 0 {
		from.note(s.source + ".rootDiskVolumeType: has no effect without rootDiskSizeGB; set both or none")
		s.RootDiskVolumeType = ""
	}
	if s.DisablePortSecurity && len(s.SecurityGroups) > 0 {
		from.note(s.source + ".securityGroups: has no effect beside disablePortSecurity; keep one of them")
		s.SecurityGroups = nil
	}
}

// readTags reads a map (server metadata) or a list. In a list, an item k=v is metadata, and any other item is a Nova tag. It
// returns an error for a reserved key.
func (s *Spec) readTags(from *Sources) error {
	v, at := from.highest("tags")
	if at < 0 || v.err != nil {
		return v.err
	}
	where := from.layers[at].where("tags")
	s.Metadata = maps.Clone(v.pairs)
	for _, tag := range v.list() {
		key, val, pair := strings.Cut(tag, "=")
		switch {
		case !pair:
			s.Tags = append(s.Tags, tag)
		case s.Metadata == nil:
			s.Metadata = map[string]string{key: val}
		default:
			s.Metadata[key] = val
		}
	}
	for _, key := range from.reader.options.ReservedTags {
		if _, taken := s.Metadata[key]; taken {
			return invalid(where, "the key %s is reserved for drover; remove it", key)
		}
	}
	return s.checkTags(from.object.Lenient, where)
}

// Limits of a server's tags. Each list of the servers of a project repeats all of them. longestMetadata is Nova's limit, in characters,
// for a key and for a value of metadata.
const mostTags, mostTagBytes, longestMetadata = 32, 4 << 10, 255

// checkTags returns an error when there are too many tags. It accepts those of a Machine that has, or had, a server.
func (s *Spec) checkTags(lenient bool, where string) error {
	count, bytes, longest := len(s.Metadata)+len(s.Tags), len(strings.Join(s.Tags, "")), 0
	for key, text := range s.Metadata {
		bytes += len(key) + len(text)
		longest = max(longest, utf8.RuneCountInString(key), utf8.RuneCountInString(text))
	}
	switch {
	case lenient:
	case count > mostTags || bytes > mostTagBytes:
		return invalid(where, "has %d tags of %d bytes together; use at most %d tags of %d bytes", count, bytes, mostTags, mostTagBytes)
	case longest > longestMetadata:
		return invalid(where, "has a key or value of %d characters; use at most %d", longest, longestMetadata)
	}
	return nil
}

package spec

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Spec returns the fields other than credentials. It does not check what only the cloud can answer. Its error names everything that is
// wrong.
func (s *Sources) Spec() (*Spec, error) {
	errs := slices.Clone(s.refused)
	field := func(name string) value {
		v := s.fields[name]
		errs = append(errs, v.err)
		return v
	}
	text := func(name string) string { return field(name).text }
	flag := func(name string) bool {
		on, _ := strconv.ParseBool(text(name))
		return on
	}
	got := &Spec{
		Flavor: text("flavor"), Image: text("image"), AvailabilityZone: text("availabilityZone"), Subnet: text("subnet"),
		FloatingIPPool: text("floatingIpPool"), RootDiskVolumeType: text("rootDiskVolumeType"), KeyName: text("keyName"),
		ComputeAPIVersion: text("computeAPIVersion"), ServerGroup: text("serverGroupID"), ServerGroupField: cmp.Or(s.fields["serverGroupID"].field, "serverGroupID"),
		SecurityGroups: field("securityGroups").texts(), Networks: networks(field("network"), field("networks")),
		ConfigDrive: flag("configDrive"), DisablePortSecurity: flag("disablePortSecurity"),
		fields: s.fields, hidden: s.hidden(false), source: s.layers[0].source,
	}
	got.RootDiskSizeGB, _ = strconv.Atoi(text("rootDiskSizeGB"))
	for _, name := range []string{"flavor", "image"} {
		if v := s.fields[name]; v.err == nil && !v.given() {
			errs = append(errs, invalid(got.source+"."+name, "is missing; set the %s of the servers", name))
		}
	}
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

// networks returns the networks. The fields network and networks are one: both are read from the highest layer that has either.
func networks(first, more value) (all []string) {
	if first.given() && (!more.given() || first.from <= more.from) {
		all = append(all, first.text)
	}
	if !first.given() || more.from <= first.from {
		all = append(all, more.texts()...)
	}
	return unique(all)
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
	v := from.fields["tags"]
	if v.err != nil {
		return v.err
	}
	s.Metadata = maps.Clone(v.pairs)
	for _, tag := range v.texts() {
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
			return invalid(v.at, "the key %s is reserved for drover; remove it", key)
		}
	}
	return s.checkTags(from.object.Lenient, v.at)
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

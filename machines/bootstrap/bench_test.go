package bootstrap

import "testing"

// BenchmarkRender measures the rendering of a Machine's user data.
func BenchmarkRender(b *testing.B) {
	for _, system := range []string{"ubuntu", "flatcar"} {
		b.Run(system, func(b *testing.B) {
			in := input(system, "")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := in.Render(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package main

import (
	"errors"
	"unsafe"
)

// Tool is one entry of the skill's table of tools.
type Tool struct {
	Name        string
	Description string
	// Schema is the JSON Schema of the input object.
	Schema string
	// Run receives the input as JSON and returns a text. Unfortunately Go collects garbage only while another goroutine can
	// run: call runtime.Gosched in a loop that allocates more than the limit of 64 MiB.
	Run func(input []byte) (string, error)
}

// Failure is an error with a kind: "invalid-input", "unavailable", "failed" or one of your own. Any other error has the kind
// "failed".
type Failure struct {
	Kind    string
	Message string
}

func (f *Failure) Error() string { return f.Message }

// Log writes a line to the operator's log. Levels: 0 debug, 1 info, 2 warning, 3 error. Output of fmt.Println ends up there, too.
//
// Functions of the host are declared like this one: the interface and the function as in wit/, and strings as parameters.
// Functions that return something take a pointer to a result area as their last parameter; the canonical ABI of the component
// model describes its layout.
//
//go:wasmimport patchbay:host/log@0.1.2 write
func Log(level uint32, message string)

// Memory that the host knows by address only. It lasts as long as the instance, which is one call.
var kept [][]uint64

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	block := make([]uint64, size/8+1)
	kept = append(kept, block)
	at := unsafe.Pointer(&block[0])
	if old != nil {
		copy(unsafe.Slice((*byte)(at), size), unsafe.Slice((*byte)(old), oldSize))
	}
	return at
}

// A string, or a list, as the canonical ABI lays it out.
type slice struct {
	at     uint32
	length uint32
}

func address(at unsafe.Pointer) uint32 { return uint32(uintptr(at)) }

func give(text string) slice {
	at := cabiRealloc(nil, 0, 1, uint32(len(text)))
	copy(unsafe.Slice((*byte)(at), len(text)), text)
	return slice{address(at), uint32(len(text))}
}

//go:wasmexport patchbay:skill/skill@0.1.2#tools
func exportTools() unsafe.Pointer {
	type tool struct{ name, description, schema, extra slice }
	at := cabiRealloc(nil, 0, 4, uint32(len(tools))*uint32(unsafe.Sizeof(tool{})))
	for i, from := range tools {
		unsafe.Slice((*tool)(at), len(tools))[i] = tool{give(from.Name), give(from.Description), give(from.Schema), slice{}}
	}
	result := &slice{address(at), uint32(len(tools))}
	return keep(unsafe.Pointer(result), unsafe.Sizeof(*result))
}

//go:wasmexport patchbay:skill/skill@0.1.2#call
func exportCall(tool unsafe.Pointer, toolLength uint32, input unsafe.Pointer, inputLength uint32, _ unsafe.Pointer, _ uint32) unsafe.Pointer {
	name := string(unsafe.Slice((*byte)(tool), toolLength))
	text, err := run(name, unsafe.Slice((*byte)(input), inputLength))
	if err != nil {
		failure := &Failure{Kind: "failed", Message: err.Error()}
		errors.As(err, &failure)
		result := &struct {
			isError       uint32
			kind, message slice
		}{1, give(failure.Kind), give(failure.Message)}
		return keep(unsafe.Pointer(result), unsafe.Sizeof(*result))
	}
	// The variant `content` has room for two strings; case 0 is text.
	content := &struct {
		tag    uint32
		text   slice
		unused slice
	}{0, give(text), slice{}}
	result := &struct {
		isError  uint32
		contents slice
		unused   slice
	}{0, slice{address(keep(unsafe.Pointer(content), unsafe.Sizeof(*content))), 1}, slice{}}
	return keep(unsafe.Pointer(result), unsafe.Sizeof(*result))
}

func keep(at unsafe.Pointer, size uintptr) unsafe.Pointer {
	to := cabiRealloc(nil, 0, 4, uint32(size))
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(at), size))
	return to
}

func run(name string, input []byte) (string, error) {
	for _, tool := range tools {
		if tool.Name == name {
			return tool.Run(input)
		}
	}
	return "", &Failure{Kind: "unknown-tool", Message: "this skill has no tool '" + name + "'"}
}

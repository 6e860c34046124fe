"""The messages of the KServe v2 protocol over gRPC, built from the text below when a server starts.

Only the fields that the server reads or writes are listed, under the protocol's own numbers: protobuf skips others.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

__all__ = ["METHODS", "SERVICE", "build_messages"]

SERVICE: Final = "inference.GRPCInferenceService"
METHODS: Final = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
"""Each takes the message NAMERequest and returns NAMEResponse."""
PROTO: Final = """
message ServerLiveRequest {}
message ServerLiveResponse { bool live = 1; }
message ServerReadyRequest {}
message ServerReadyResponse { bool ready = 1; }
message ModelReadyRequest { string name = 1; string version = 2; }
message ModelReadyResponse { bool ready = 1; }
message ServerMetadataRequest {}
message ServerMetadataResponse { string name = 1; string version = 2; repeated string extensions = 3; }
message ModelMetadataRequest { string name = 1; string version = 2; }
message TensorMetadata { string name = 1; string datatype = 2; repeated int64 shape = 3; }
message ModelMetadataResponse {
  string name = 1; repeated string versions = 2; string platform = 3;
  repeated TensorMetadata inputs = 4; repeated TensorMetadata outputs = 5;
}
message InferTensorContents {
  repeated bool bool_contents = 1; repeated int32 int_contents = 2; repeated int64 int64_contents = 3;
  repeated uint32 uint_contents = 4; repeated uint64 uint64_contents = 5;
  repeated float fp32_contents = 6; repeated double fp64_contents = 7;
}
message InferInputTensor {
  string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5;
}
message InferRequestedOutputTensor { string name = 1; }
message ModelInferRequest {
  string model_name = 1; string model_version = 2; string id = 3; repeated InferInputTensor inputs = 5;
  repeated InferRequestedOutputTensor outputs = 6; repeated bytes raw_input_contents = 7;
}
message InferOutputTensor {
  string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5;
}
message ModelInferResponse {
  string model_name = 1; string model_version = 2; string id = 3; repeated InferOutputTensor outputs = 5;
  repeated bytes raw_output_contents = 6;
}
"""
MESSAGE: Final = re.compile(r"message (\w+) \{([^}]*)\}")
FIELD: Final = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")


def build_messages() -> Mapping[str, Any]:
    """Name -> message class. In a pool of its own: a client in the same process may have registered the same names."""
    file = FileDescriptorProto(name="trueloop/inference.proto", package="inference", syntax="proto3")
    names = [name for name, _ in MESSAGE.findall(PROTO)]
    for name, fields in MESSAGE.findall(PROTO):
        message = file.message_type.add(name=name)
        for repeated, kind, field, number in FIELD.findall(fields):
            label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            added = message.field.add(name=field, number=int(number), label=label)
            if kind in names:
                added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".inference.{kind}"
            else:
                added.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}")) for name in names}

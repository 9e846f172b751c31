import { AgentLoopError, jsonFlaw, shownValue } from '../core/contracts/index.ts';

/** How large metadata may be, in characters of their JSON. */
const maxMetadataLength = 1024 * 1024;

/** Metadata as JSON. Errors: `INVALID_INPUT` for anything but an object, values that JSON changes, and too large ones. */
export function encodeMetadata(metadata: object): string {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    throw invalid(`metadata must be an object, not ${shownValue(metadata)}.`);
  }
  const text = encodeJson(metadata, 'metadata');
  if (text.length <= maxMetadataLength) return text;
  throw invalid(
    `metadata is ${text.length} characters of JSON, more than ${maxMetadataLength}; keep large content in an ArtifactStore.`,
  );
}

/** A value as JSON. Errors: `INVALID_INPUT`, naming the first member that JSON would lose or change. */
export function encodeJson(value: object, name: string): string {
  const flaw = jsonFlaw(value, name);
  if (flaw !== undefined) throw invalid(`${flaw}, which JSON does not keep; give texts, numbers, lists and objects.`);
  return JSON.stringify(value);
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}

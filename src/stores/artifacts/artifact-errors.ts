import { AgentLoopError } from '../../core/contracts/index.ts';

export function noArtifact(artifactId: string, version?: number): AgentLoopError {
  const what = version === undefined ? '' : ` in version ${version}`;
  return new AgentLoopError(
    'NOT_FOUND',
    `The store has no artifact "${artifactId}"${what}; check the id, or create it.`,
  );
}

export function artifactExists(artifactId: string): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `There is an artifact "${artifactId}"; update it, or create one of another id.`,
  );
}

export function newerVersion(artifactId: string, expected: number, found: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The newest version of artifact "${artifactId}" is ${found}, not ${expected}: somebody changed it; read it and try again.`,
  );
}

export function wrongOffset(artifactId: string, offset: number, size: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The draft of artifact "${artifactId}" has ${size} bytes here, so no chunk begins at ${offset}; continue from there, or start over at 0.`,
  );
}

export function damagedArtifact(artifactId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The artifact "${artifactId}" cannot be read: ${what}; restore it from a backup, or delete it.`,
  );
}

export function newerArtifact(artifactId: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The artifact "${artifactId}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}

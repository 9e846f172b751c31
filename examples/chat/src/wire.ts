/** What of A2A 1.0, as JSON, the page reads. */
export interface Part {
  readonly text?: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly filename?: string;
}

export interface Status {
  readonly state: string;
  readonly message?: { readonly parts?: readonly Part[] };
}

export interface Artifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts?: readonly Part[];
}

export interface Task {
  readonly id: string;
  readonly status: Status;
  readonly artifacts?: readonly Artifact[];
  readonly metadata?: Metadata;
}

export interface StatusUpdate {
  readonly status: Status;
  readonly metadata?: Metadata;
}

export interface ArtifactUpdate {
  readonly artifact: Artifact;
  readonly append?: boolean;
  readonly metadata?: Metadata;
}

export type StreamResponse =
  | { readonly task: Task }
  | { readonly statusUpdate: StatusUpdate }
  | { readonly artifactUpdate: ArtifactUpdate };

/** By the URI of the extension that it is of. */
export interface Metadata {
  readonly [turnExtension]?: { readonly cursor?: string; readonly code?: string };
  readonly [toolEventsExtension]?: ToolEvent;
}

export interface ToolEvent {
  readonly phase: 'start' | 'complete';
  readonly callId: string;
  readonly toolName: string;
  /** Of a call of a sub-agent: from the sub-agent of the task to the one that makes the call. */
  readonly path?: readonly { readonly agentId: string; readonly callId: string }[];
  readonly success?: boolean;
  readonly durationMs?: number;
  /** Why it has no success; see docs/errors.md. */
  readonly code?: string;
}

export interface OutgoingMessage {
  readonly messageId: string;
  readonly contextId?: string;
  readonly taskId?: string;
  readonly role: 'ROLE_USER';
  readonly parts: readonly Part[];
}

/** Cursors, and why a task ended. */
export const turnExtension = 'urn:millrace:a2a:turn:v1';

/** Tool calls as they run. */
export const toolEventsExtension = 'urn:millrace:a2a:tool-events:v1';

/** A message as A2A 0.3 writes it. */
export function legacyMessage(text: string) {
  return { kind: 'message', role: 'user', messageId: `legacy-${text}`, parts: [{ kind: 'text', text }] };
}

const text = { type: 'string' };
const metadata = { type: 'object' };
const texts = { type: 'array', items: text };

function object(required: Readonly<Record<string, object>>, optional: Readonly<Record<string, object>> = {}) {
  return {
    type: 'object',
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

const file = {
  oneOf: [
    object({ bytes: text }, { name: text, mimeType: text }),
    object({ uri: text }, { name: text, mimeType: text }),
  ],
};

const part = {
  oneOf: [
    object({ kind: { const: 'text' }, text }, { metadata }),
    object({ kind: { const: 'data' }, data: { type: 'object' } }, { metadata }),
    object({ kind: { const: 'file' }, file }, { metadata }),
  ],
};

const parts = { type: 'array', items: part, minItems: 1 };

const message = object(
  { kind: { const: 'message' }, role: { enum: ['user', 'agent'] }, messageId: text, parts },
  { taskId: text, contextId: text, metadata, extensions: texts, referenceTaskIds: texts },
);

const states = [
  'submitted',
  'working',
  'input-required',
  'auth-required',
  'completed',
  'failed',
  'canceled',
  'rejected',
  'unknown',
];

const status = object({ state: { enum: states } }, { message, timestamp: { type: 'string', pattern: '^\\d{4}-.*Z$' } });
const artifact = object({ artifactId: text, parts }, { name: text, description: text, metadata, extensions: texts });

const task = object(
  { kind: { const: 'task' }, id: text, contextId: text, status },
  { history: { type: 'array', items: message }, artifacts: { type: 'array', items: artifact }, metadata },
);

const statusUpdate = object(
  { kind: { const: 'status-update' }, taskId: text, contextId: text, status, final: { type: 'boolean' } },
  { metadata },
);

const artifactUpdate = object(
  { kind: { const: 'artifact-update' }, taskId: text, contextId: text, artifact },
  { append: { type: 'boolean' }, lastChunk: { type: 'boolean' }, metadata },
);

/** What the results of `message/stream` and `tasks/resubscribe` may be in A2A 0.3: the members that its types name, and no others. */
export const legacySchema = { oneOf: [task, statusUpdate, artifactUpdate, message] };

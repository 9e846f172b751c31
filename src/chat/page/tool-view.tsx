import { visibleText } from '../../ui/visible-text.ts';
import type { Part } from './api.ts';
import type { AgentActivity } from './conversation.ts';
import { Icon, type IconName } from './icons.tsx';
import { Value } from './value-view.tsx';

/** How a call stands, in words, with its mark. */
const states = {
  preparing: ['Preparing', undefined],
  running: ['Running', undefined],
  waiting: ['Needs an answer', 'question'],
  done: ['Done', 'check'],
  failed: ['Failed', 'cross'],
  refused: ['Rejected', 'minus'],
  stopped: ['Stopped', 'minus'],
} as const satisfies Readonly<Record<string, readonly [string, IconName | undefined]>>;

export type ToolState = keyof typeof states;

/** How a call stands in its message. `isOpen`: the turn runs. */
export function toolState(part: Part, { isOpen, isAsking }: { isOpen: boolean; isAsking: boolean }): ToolState {
  if (isAsking) return 'waiting';
  switch (part['state']) {
    case 'output-available':
      return part['preliminary'] === true ? (isOpen ? 'running' : 'stopped') : 'done';
    case 'output-error':
      return Object(part['resultProviderMetadata']).millrace?.code === 'CANCELED' ? 'stopped' : 'failed';
    case 'output-denied':
      return 'refused';
    case 'input-streaming':
      return isOpen ? 'preparing' : 'stopped';
    default:
      return isOpen ? 'running' : 'stopped';
  }
}

export interface ToolProps {
  readonly part: Part;
  readonly state: ToolState;
  readonly agents: readonly AgentActivity[];
}

/** A call: one line, and what left the server of its arguments and its result below it. */
export function ToolView({ part, state, agents }: ToolProps) {
  const { input, output, errorText } = part;
  const hasInput = typeof input === 'object' ? Object.keys(input ?? {}).length > 0 : input !== undefined;
  const hasOutput = output !== undefined && output !== null;
  const line = <ToolLine part={part} state={state} />;
  return (
    <div class={`tool ${state}`}>
      {hasInput || hasOutput ? (
        <details>
          <summary>
            {line}
            <span class="fold">
              <Icon name="chevron" />
            </span>
          </summary>
          <div class="details">
            {hasInput && <Value label="Arguments" value={input} />}
            {hasOutput && <Value label={state === 'running' ? 'Progress' : 'Result'} value={output} />}
          </div>
        </details>
      ) : (
        <div class="line">{line}</div>
      )}
      {state === 'failed' && <p class="tool-error">{visibleText(String(errorText))}</p>}
      {agents.map((agent) => (
        <p class="agent" key={agent.id}>
          <span class="agent-name">{visibleText(agent.agentId)}</span>{' '}
          <span class="agent-text" dir="auto">
            {agent.text === '' ? agent.state : visibleText(agent.text)}
          </span>
        </p>
      ))}
    </div>
  );
}

function ToolLine({ part, state }: Pick<ToolProps, 'part' | 'state'>) {
  const [words, icon] = states[state];
  return (
    <>
      <span class="mark">{icon && <Icon name={icon} />}</span>
      <bdi class="tool-name">{visibleText(String(part['toolName'] ?? 'tool'))}</bdi>
      <span class="tool-state">{words}</span>
    </>
  );
}

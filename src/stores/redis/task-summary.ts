import { AgentLoopError, type TaskState, type TaskSummary } from '../../core/contracts/index.ts';
import { summaryOf } from '../task-summary.ts';
import type { ScriptAnswer } from './script-answer.ts';

/** What `lua/describe-1.lua` gives of a task. */
export function summaryOfAnswer(taskId: string, answer: ScriptAnswer): TaskSummary {
  const [parentTaskId, bytes] = [answer.text(9), answer.text(10)];
  return summaryOf({
    taskId,
    contextId: answer.text(1),
    agentId: answer.text(2),
    parentTaskId: parentTaskId === '' ? undefined : parentTaskId,
    state: stateOf(answer.text(3)),
    seq: answer.int(4),
    createdAt: Number(answer.text(5)),
    updatedAt: Number(answer.text(6)),
    statusAt: Number(answer.text(8)),
    held: answer.int(7) === 1,
    bytes: bytes === '' ? undefined : Number(bytes),
  });
}

const states: Readonly<Record<TaskState, true>> = {
  submitted: true,
  working: true,
  'input-required': true,
  'auth-required': true,
  completed: true,
  failed: true,
  canceled: true,
  rejected: true,
};

function stateOf(text: string): TaskState {
  if (isState(text)) return text;
  throw new AgentLoopError(
    'SCHEMA',
    `A task has the state "${text}", which this version does not know; update millrace.`,
  );
}

function isState(text: string): text is TaskState {
  return Object.hasOwn(states, text);
}

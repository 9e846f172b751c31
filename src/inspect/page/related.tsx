import type { TaskDetail, TreeNode } from '../wire.ts';
import { standing } from './format.ts';
import { State } from './parts.tsx';
import { linkTo } from './place.ts';

const more = <span class="dim">There may be more.</span>;

/** The turns around one: above it, below it, and those that were forked from it. */
export function Related({ detail: { summary, parent, forkedFrom, below, forksCut } }: { readonly detail: TaskDetail }) {
  if (below.length === 0 && !parent && !forkedFrom && !forksCut)
    return <p class="hint">The turn has no sub-agents and no forks.</p>;
  return (
    <ul class="tree">
      {parent && (
        <li>
          <a href={linkTo(['task', parent.taskId])}>Parent turn</a> <code>{parent.taskId}</code>
        </li>
      )}
      {forkedFrom && (
        <li>
          <a href={linkTo(['task', forkedFrom.taskId])}>{forkedFrom.isRetry ? 'Retried turn' : 'Origin of the fork'}</a>{' '}
          <code>{forkedFrom.taskId}</code> <span class="dim">kept up to iteration {forkedFrom.at}</span>{' '}
          <a href={linkTo(['compare', forkedFrom.taskId, summary.taskId])}>Compare</a>
        </li>
      )}
      {below.map((node) => (
        <Node key={node.taskId} node={node} origin={summary.taskId} />
      ))}
      {forksCut && <li>{more}</li>}
    </ul>
  );
}

function Node({ node, origin }: { readonly node: TreeNode; readonly origin: string }) {
  const { taskId, agentId, kind, state, held, callId, at, below, cut } = node;
  const name = kind === 'child' ? agentId : kind === 'fork' ? `Fork after iteration ${at}` : 'Retry';
  return (
    <li>
      <State state={standing(state, held)} />
      {state === 'missing' ? <span>{name}</span> : <a href={linkTo(['task', taskId])}>{name}</a>}
      <code>{taskId}</code>
      {callId !== undefined && <span class="dim">call {callId}</span>}
      {kind !== 'child' && <a href={linkTo(['compare', origin, taskId])}>Compare</a>}
      {cut && more}
      {below.length > 0 && (
        <ul class="tree">
          {below.map((each) => (
            <Node key={each.taskId} node={each} origin={taskId} />
          ))}
        </ul>
      )}
    </li>
  );
}

import type { TaskDetail, TreeNode } from '../wire.ts';
import { dollars, moment, tokens } from './format.ts';
import { Json } from './json.tsx';
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
  const { taskId, agentId, kind, state, callId, at, below, cut } = node;
  const name = kind === 'child' ? agentId : kind === 'fork' ? `Fork after iteration ${at}` : 'Retry';
  return (
    <li>
      <State state={state} />
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

/** Usage by agent and model, and what the turn was started with. */
export function About({ detail }: { readonly detail: TaskDetail }) {
  const { summary, usageBy, settings, metadata } = detail;
  return (
    <div class="facts">
      <section>
        <h2>Usage</h2>
        {usageBy.length === 0 ? (
          <p class="hint">No model call yet.</p>
        ) : (
          <table>
            <thead>
              <tr>
                <th>Agent</th>
                <th>Model</th>
                <th class="number">Prompt</th>
                <th class="number">Completion</th>
                <th class="number">Cost</th>
              </tr>
            </thead>
            <tbody>
              {usageBy.map(({ agentId, model, usage, cost }) => (
                <tr key={`${agentId} ${model}`}>
                  <td>{agentId}</td>
                  <td>{model ?? 'not named'}</td>
                  <td class="number">{tokens(usage.promptTokens)}</td>
                  <td class="number">{tokens(usage.completionTokens)}</td>
                  <td class="number">{dollars(cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      <section>
        <h2>Turn</h2>
        <dl class="pairs">
          <dt>Context</dt>
          <dd>
            <code>{summary.contextId}</code>
          </dd>
          <dt>Created</dt>
          <dd>{moment(summary.createdAt)}</dd>
          <dt>Last record</dt>
          <dd>{moment(summary.updatedAt)}</dd>
          <dt>Owner</dt>
          <dd>{summary.held ? 'a process holds the lease' : 'no process'}</dd>
          {summary.bytes !== undefined && <dt>Size</dt>}
          {summary.bytes !== undefined && <dd>{summary.bytes.toLocaleString('en-US')} bytes</dd>}
        </dl>
      </section>
      <section>
        <h2>Settings</h2>
        <Json value={settings} open={2} />
      </section>
      <section>
        <h2>Metadata</h2>
        <Json value={metadata} open={2} />
      </section>
    </div>
  );
}

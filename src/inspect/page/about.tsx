import type { TaskDetail } from '../wire.ts';
import { dollars, grouped, moment, tokens } from './format.ts';
import { Json } from './json.tsx';

/** Usage by agent and model, and what the turn was started with. */
export function About({ detail: { summary, usageBy, settings, metadata } }: { readonly detail: TaskDetail }) {
  return (
    <div class="facts">
      <section>
        <h2>Usage</h2>
        <Usage usageBy={usageBy} />
      </section>
      <section>
        <h2>Turn</h2>
        <Facts summary={summary} />
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

function Usage({ usageBy }: Pick<TaskDetail, 'usageBy'>) {
  if (usageBy.length === 0) return <p class="hint">No usage yet.</p>;
  return (
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
  );
}

function Facts({ summary }: Pick<TaskDetail, 'summary'>) {
  return (
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
      {summary.bytes !== undefined && <dd>{grouped(summary.bytes)} bytes</dd>}
    </dl>
  );
}

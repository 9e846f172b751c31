import type { Attributes } from '@opentelemetry/api';
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from '@opentelemetry/resources';

/** Who sends spans and metrics: the given name, else what the environment says, else `millrace`. */
export function resourceOf(serviceName: string | undefined): Resource {
  const own: Attributes = serviceName === undefined ? {} : { 'service.name': serviceName };
  return defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'millrace' }))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(own));
}

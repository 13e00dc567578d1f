"""The experiments of the study; `unbag_lab.plan` finds them by name.

| experiment | module | further modules |
|---|---|---|
| `pretraining` | `pretraining` | |
| `default`, `ordered`, `held_out` | `repair` | `repair_training` (arms) |
| `readouts` | `readouts` | `readers` (and the frozen bases), `decoders` (and VLM2Vec) |
| `priors` | `priors` | uses `readers` and `decoders` |
| `probes` | `probes` | `probes_measuring` (its numbers) |
| `photos` | `photos` | `photos_training` (arms, tables), `photos_heads` |
"""

"""Where requests wait for decisions: who they are, a wait's place, a worker. Permits are given out and come back here only.

The rules decide (`identity`, `policies`); each gate acts on what one of them says, at once and without an await in between.
`turn`, called four times a second, ends the waits that lasted too long. `steps.Steps` says what goes on after each.
"""

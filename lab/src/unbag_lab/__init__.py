"""The study of published claims: experiments on the built-in world, verdicts, and their pages."""

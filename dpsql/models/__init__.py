"""Released models: how they are stored, score rows, are explained, exported and evaluated."""

"""Pictures that are opened late: from files, from pixels."""

from unbag.pictures.files import FilePicture, PixelPicture

__all__ = ["FilePicture", "PixelPicture"]
